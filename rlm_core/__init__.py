"""The library: everything a Recursive Language Model needs, free of prefect, dvc and mlflow."""
