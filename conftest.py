"""What all tests share: the settings of a run, and the fixtures of those that drive a browser."""

pytest_plugins = ["tests.settings", "tests.browser.fixtures", "tests.notebooks.kernels"]
