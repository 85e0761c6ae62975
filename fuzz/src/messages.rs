//! Every request message of the API, by number.

/// Calls `$function::<Message>($argument)` for the message with this number, modulo how many there
/// are.
macro_rules! with_message {
    ($number:expr, $function:ident($argument:expr)) => {
        $crate::messages::with_message!(@ $number, $function($argument);
            etcdserverpb RangeRequest, etcdserverpb PutRequest, etcdserverpb DeleteRangeRequest,
            etcdserverpb TxnRequest, etcdserverpb CompactionRequest, etcdserverpb WatchRequest,
            etcdserverpb LeaseGrantRequest, etcdserverpb LeaseRevokeRequest, etcdserverpb LeaseKeepAliveRequest,
            etcdserverpb LeaseTimeToLiveRequest, etcdserverpb LeaseLeasesRequest, etcdserverpb MemberAddRequest,
            etcdserverpb MemberRemoveRequest, etcdserverpb MemberUpdateRequest, etcdserverpb MemberListRequest,
            etcdserverpb MemberPromoteRequest, etcdserverpb AlarmRequest, etcdserverpb StatusRequest,
            etcdserverpb DefragmentRequest, etcdserverpb HashRequest, etcdserverpb HashKvRequest,
            etcdserverpb SnapshotRequest, etcdserverpb MoveLeaderRequest, etcdserverpb DowngradeRequest,
            etcdserverpb AuthEnableRequest, etcdserverpb AuthDisableRequest, etcdserverpb AuthStatusRequest,
            etcdserverpb AuthenticateRequest, etcdserverpb AuthUserAddRequest, etcdserverpb AuthUserGetRequest,
            etcdserverpb AuthUserListRequest, etcdserverpb AuthUserDeleteRequest,
            etcdserverpb AuthUserChangePasswordRequest, etcdserverpb AuthUserGrantRoleRequest,
            etcdserverpb AuthUserRevokeRoleRequest, etcdserverpb AuthRoleAddRequest, etcdserverpb AuthRoleGetRequest,
            etcdserverpb AuthRoleListRequest, etcdserverpb AuthRoleDeleteRequest,
            etcdserverpb AuthRoleGrantPermissionRequest, etcdserverpb AuthRoleRevokePermissionRequest,
            v3lockpb LockRequest, v3lockpb UnlockRequest, v3electionpb CampaignRequest,
            v3electionpb ProclaimRequest, v3electionpb LeaderRequest, v3electionpb ResignRequest
        )
    };
    (@ $number:expr, $function:ident($argument:expr); $($package:ident $message:ident),*) => {{
        let functions = [$($function::<vetch_api::$package::$message>),*];
        functions[usize::from($number) % functions.len()]($argument)
    }};
}
pub(crate) use with_message;
