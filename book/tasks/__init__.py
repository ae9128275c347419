"""What is learned: the tasks that several chapters train on."""
