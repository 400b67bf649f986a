"""The few messages of etcd's protocol that Tenure speaks, built when this module is imported.

They stand in a pool of their own: another client of etcd in the same process, which registers the
same names, is not in the way, and no generated file ties Tenure to one version of protobuf.
"""

from __future__ import annotations

from typing import Any

from google.protobuf.descriptor_pb2 import DescriptorProto, FieldDescriptorProto, FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass

_PACKAGE = "etcdserverpb"
_MESSAGES = """
ResponseHeader: 1 cluster_id uint64, 2 member_id uint64, 3 revision int64, 4 raft_term uint64
KeyValue: 1 key bytes, 2 create_revision int64, 3 mod_revision int64, 4 version int64, 5 value bytes, 6 lease int64
RangeRequest: 1 key bytes, 2 range_end bytes, 3 limit int64, 4 revision int64, 5 sort_order int32, 6 sort_target int32, 8 keys_only bool, 9 count_only bool
RangeResponse: 1 header ResponseHeader, 2 kvs KeyValue*, 3 more bool, 4 count int64
PutRequest: 1 key bytes, 2 value bytes, 3 lease int64
PutResponse: 1 header ResponseHeader
DeleteRangeRequest: 1 key bytes, 2 range_end bytes
DeleteRangeResponse: 1 header ResponseHeader, 2 deleted int64
RequestOp: 1 request_range RangeRequest, 2 request_put PutRequest, 3 request_delete_range DeleteRangeRequest, 4 request_txn TxnRequest
ResponseOp: 1 response_range RangeResponse, 2 response_put PutResponse, 3 response_delete_range DeleteRangeResponse, 4 response_txn TxnResponse
Compare: 1 result int32, 2 target int32, 3 key bytes, 4 version int64, 5 create_revision int64, 6 mod_revision int64, 64 range_end bytes
TxnRequest: 1 compare Compare*, 2 success RequestOp*, 3 failure RequestOp*
TxnResponse: 1 header ResponseHeader, 2 succeeded bool, 3 responses ResponseOp*
Event: 1 type int32, 2 kv KeyValue
WatchCreateRequest: 1 key bytes, 2 range_end bytes, 3 start_revision int64
WatchRequest: 1 create_request WatchCreateRequest
WatchResponse: 1 header ResponseHeader, 2 watch_id int64, 3 created bool, 4 canceled bool, 5 compact_revision int64, 6 cancel_reason string, 11 events Event*
LeaseGrantRequest: 1 TTL int64, 2 ID int64
LeaseGrantResponse: 1 header ResponseHeader, 2 ID int64, 3 TTL int64
LeaseKeepAliveRequest: 1 ID int64
LeaseKeepAliveResponse: 1 header ResponseHeader, 2 ID int64, 3 TTL int64
LeaseRevokeRequest: 1 ID int64
LeaseRevokeResponse: 1 header ResponseHeader
AuthenticateRequest: 1 name string, 2 password string
AuthenticateResponse: 1 header ResponseHeader, 2 token string
StatusRequest:
StatusResponse: 1 header ResponseHeader, 2 version string, 3 dbSize int64, 4 leader uint64, 8 errors string*, 9 dbSizeInUse int64
"""

_Field = FieldDescriptorProto
_SCALARS = {
    "bool": _Field.TYPE_BOOL,
    "bytes": _Field.TYPE_BYTES,
    "int32": _Field.TYPE_INT32,
    "int64": _Field.TYPE_INT64,
    "string": _Field.TYPE_STRING,
    "uint64": _Field.TYPE_UINT64,
}


def _build() -> dict[str, Any]:
    file = FileDescriptorProto(name="tenure/etcd.proto", package=_PACKAGE, syntax="proto3")
    for line in _MESSAGES.strip().splitlines():
        name, _, fields = line.partition(":")
        message = file.message_type.add(name=name)
        for field in filter(None, fields.strip().split(", ")):
            _add_field(message, *field.split())
    pool = DescriptorPool()
    pool.Add(file)
    return {
        message.name: GetMessageClass(pool.FindMessageTypeByName(f"{_PACKAGE}.{message.name}"))
        for message in file.message_type
    }


def _add_field(message: DescriptorProto, number: str, name: str, kind: str) -> None:
    field = message.field.add(name=name, number=int(number))
    field.label = _Field.LABEL_REPEATED if kind.endswith("*") else _Field.LABEL_OPTIONAL
    kind = kind.rstrip("*")
    if kind in _SCALARS:
        field.type = _SCALARS[kind]
    else:
        field.type, field.type_name = _Field.TYPE_MESSAGE, f".{_PACKAGE}.{kind}"


_classes = _build()


def message(name: str) -> Any:
    """The class of a message."""
    return _classes[name]
