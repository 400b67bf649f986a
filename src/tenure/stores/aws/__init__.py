"""What stores on AWS-style services share: finding the way in, signing, sending, and the server's time."""

from tenure.stores.aws.access import Access
from tenure.stores.aws.client import Answer, AwsClient, AwsUnavailable, Request
from tenure.stores.aws.clock import ServerClock

__all__ = ["Access", "Answer", "AwsClient", "AwsUnavailable", "Request", "ServerClock"]
