// What eslint asks of the book's scripts, on top of its own recommendations.
import js from "@eslint/js";
import globals from "globals";

export default [
  { ignores: ["**/.venv*/", "_build/", "**/node_modules/", "book/static/scripts/"] },
  js.configs.recommended,
  {
    languageOptions: { ecmaVersion: 2024, globals: globals.browser },
    linterOptions: { reportUnusedDisableDirectives: "error" },
    rules: {
      "no-unused-vars": ["error", { ignoreRestSiblings: true }],
      eqeqeq: "error",
      "no-var": "error",
      "prefer-const": ["error", { destructuring: "all" }],
      "no-implicit-globals": "error",
      "no-shadow-restricted-names": "error",
      "no-eval": "error",
      "no-implied-eval": "error",
      "no-new-func": "error",
      "no-restricted-properties": ["error", ...["innerHTML", "outerHTML", "insertAdjacentHTML"].map(
        (property) => ({ property, message: "Text goes in as text: by textContent." }))],
      "no-restricted-syntax": ["error", { selector: "TemplateElement[value.raw=/\\n/]",
        message: "A text ends in its line: pages get the scripts without indents." }],
      "no-self-compare": "error",
      "no-template-curly-in-string": "error",
      "no-unmodified-loop-condition": "error",
      "no-unreachable-loop": "error",
      "array-callback-return": "error",
      "no-promise-executor-return": "error",
      "default-case-last": "error",
      "no-use-before-define": ["error", { functions: false, classes: false, variables: false }],
      "object-shorthand": "error",
      "prefer-arrow-callback": "error",
      "prefer-template": "off",
    },
  },
];
