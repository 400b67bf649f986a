"""Logs, metrics, traces and error reports: subscribers of one stream of events, each optional."""
