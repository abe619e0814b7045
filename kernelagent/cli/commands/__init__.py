"""What each command does once its flags are read; stdout is data, stderr is talk."""
