-- One database a server, made when the volume is empty.
CREATE DATABASE prefect;
CREATE DATABASE mlflow;
