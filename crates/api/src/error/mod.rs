//! Every error a client can see: its gRPC code and its exact text.
//!
//! Clients of etcd recognise an error by its **text**, some by its code, so both are part of the
//! contract. The table is written down once, here, and holds what etcd really puts on the wire.
//! Where that differs from what etcd's own table declares, a comment says so.

mod transport;

#[cfg(test)]
mod tests;

use tonic::{Code, Status};

pub use transport::{code_name, received_too_large};

macro_rules! table {
    ($($name:ident = $code:ident, $text:literal;)*) => {
        /// An error of the API. The names are those of etcd without their common prefix.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
        pub enum EtcdError {
            $(#[error($text)] $name,)*
        }

        impl EtcdError {
            /// All of them, in the order of the table.
            pub const ALL: &'static [Self] = &[$(Self::$name,)*];

            /// The name of the variant.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$name => stringify!($name),)* }
            }

            /// The gRPC code that clients get.
            pub const fn code(self) -> Code {
                match self { $(Self::$name => Code::$code,)* }
            }

            /// The exact text.
            pub const fn text(self) -> &'static str {
                match self { $(Self::$name => $text,)* }
            }
        }
    };
}

table! {
    // Keys, values and revisions.
    EmptyKey = InvalidArgument, "etcdserver: key is not provided";
    KeyNotFound = InvalidArgument, "etcdserver: key not found";
    ValueProvided = InvalidArgument, "etcdserver: value is provided";
    LeaseProvided = InvalidArgument, "etcdserver: lease is provided";
    TooManyOps = InvalidArgument, "etcdserver: too many operations in txn request";
    DuplicateKey = InvalidArgument, "etcdserver: duplicate key given in txn request";
    InvalidClientAPIVersion = InvalidArgument, "etcdserver: invalid client api version";
    InvalidSortOption = InvalidArgument, "etcdserver: invalid sort option";
    Compacted = OutOfRange, "etcdserver: mvcc: required revision has been compacted";
    FutureRev = OutOfRange, "etcdserver: mvcc: required revision is a future revision";
    NoSpace = ResourceExhausted, "etcdserver: mvcc: database space exceeded";

    // Leases and watches.
    LeaseNotFound = NotFound, "etcdserver: requested lease not found";
    LeaseExist = FailedPrecondition, "etcdserver: lease already exists";
    LeaseTTLTooLarge = OutOfRange, "etcdserver: too large lease TTL";
    WatchCanceled = Cancelled, "etcdserver: watch canceled";

    // Membership.
    MemberExist = FailedPrecondition, "etcdserver: member ID already exist";
    PeerURLExist = FailedPrecondition, "etcdserver: Peer URLs already exists";
    // etcd declares FailedPrecondition, but a slip in its table sends Unknown, and that is what
    // clients see.
    MemberNotEnoughStarted = Unknown, "etcdserver: re-configuration failed due to not enough started members";
    MemberBadURLs = InvalidArgument, "etcdserver: given member URLs are invalid";
    MemberNotFound = NotFound, "etcdserver: member not found";
    MemberNotLearner = FailedPrecondition, "etcdserver: can only promote a learner member";
    LearnerNotReady = FailedPrecondition,
        "etcdserver: can only promote a learner member which is in sync with leader";
    TooManyLearners = FailedPrecondition, "etcdserver: too many learner members in cluster";
    ClusterIDMismatch = FailedPrecondition, "etcdserver: cluster ID mismatch";

    // Limits on requests.
    RequestTooLarge = InvalidArgument, "etcdserver: request is too large";
    // etcd declares ResourceExhausted, but a slip in its table sends Unknown, and that is what
    // clients see.
    RequestTooManyRequests = Unknown, "etcdserver: too many requests";

    // Authentication and authorisation.
    RootUserNotExist = FailedPrecondition, "etcdserver: root user does not exist";
    RootRoleNotExist = FailedPrecondition, "etcdserver: root user does not have root role";
    UserAlreadyExist = FailedPrecondition, "etcdserver: user name already exists";
    UserEmpty = InvalidArgument, "etcdserver: user name is empty";
    UserNotFound = FailedPrecondition, "etcdserver: user name not found";
    RoleAlreadyExist = FailedPrecondition, "etcdserver: role name already exists";
    RoleNotFound = FailedPrecondition, "etcdserver: role name not found";
    RoleEmpty = InvalidArgument, "etcdserver: role name is empty";
    AuthFailed = InvalidArgument, "etcdserver: authentication failed, invalid user ID or password";
    PermissionNotGiven = InvalidArgument, "etcdserver: permission not given";
    PermissionDenied = PermissionDenied, "etcdserver: permission denied";
    RoleNotGranted = FailedPrecondition, "etcdserver: role is not granted to the user";
    PermissionNotGranted = FailedPrecondition, "etcdserver: permission is not granted to the role";
    AuthNotEnabled = FailedPrecondition, "etcdserver: authentication is not enabled";
    InvalidAuthToken = Unauthenticated, "etcdserver: invalid auth token";
    InvalidAuthMgmt = InvalidArgument, "etcdserver: invalid auth management";
    AuthOldRevision = InvalidArgument, "etcdserver: revision of auth store is old";

    // State of the server and of the cluster.
    NoLeader = Unavailable, "etcdserver: no leader";
    NotLeader = FailedPrecondition, "etcdserver: not leader";
    LeaderChanged = Unavailable, "etcdserver: leader changed";
    NotCapable = FailedPrecondition, "etcdserver: not capable";
    Stopped = Unavailable, "etcdserver: server stopped";
    Timeout = Unavailable, "etcdserver: request timed out";
    TimeoutDueToLeaderFail = Unavailable,
        "etcdserver: request timed out, possibly due to previous leader failure";
    TimeoutDueToConnectionLost = Unavailable,
        "etcdserver: request timed out, possibly due to connection lost";
    TimeoutWaitAppliedIndex = Unavailable,
        "etcdserver: request timed out, waiting for the applied index took too long";
    Unhealthy = Unavailable, "etcdserver: unhealthy cluster";
    Corrupt = DataLoss, "etcdserver: corrupt cluster";
    NotSupportedForLearner = FailedPrecondition, "etcdserver: rpc not supported for learner";
    BadLeaderTransferee = FailedPrecondition, "etcdserver: bad leader transferee";

    // Downgrade.
    WrongDowngradeVersionFormat = InvalidArgument, "etcdserver: wrong downgrade target version format";
    InvalidDowngradeTargetVersion = InvalidArgument, "etcdserver: invalid downgrade target version";
    ClusterVersionUnavailable = FailedPrecondition, "etcdserver: cluster version not found during downgrade";
    DowngradeInProcess = FailedPrecondition, "etcdserver: cluster has a downgrade job in progress";
    NoInflightDowngrade = FailedPrecondition, "etcdserver: no inflight downgrade job";

    // Requests that ended early inside the server.
    Canceled = Cancelled, "etcdserver: request canceled";
    DeadlineExceeded = DeadlineExceeded, "etcdserver: context deadline exceeded";

    // What etcd sends as Unknown because its table has no row for it.
    UnknownMethod = Unknown, "etcdserver: unknown method";
    NotPrimaryLessor = Unknown, "not a primary lessor";
    NoPasswordUser = Unknown, "auth: authentication failed, password was given for no password user";
    PasswordTooLong = Unknown, "bcrypt: password length exceeds 72 bytes";
    TokenVerifyOnly = Unknown, "auth: token signing attempted with verify-only key";
    TimeoutLeaderTransfer = Unknown, "etcdserver: request timed out, leader transfer took too long";
    MissingLeaderKey = Unknown, "\"leader\" field must be provided";
    ElectionNotLeader = Unknown, "election: not leader";
    ElectionNoLeader = Unknown, "election: no leader";
    SessionExpired = Unknown, "mutex: session is expired";
    WatcherEmptyRange = Unknown, "mvcc: watcher range is empty";
    WatcherDuplicateId = Unknown, "mvcc: duplicate watch ID provided on the WatchStream";

    // Requests that RangeStream does not take.
    RangeStreamSort = Unimplemented, "RangeStream does not support custom sort orders";
    RangeStreamFilter = Unimplemented, "RangeStream does not support revision filters";

    // The client went away, or its deadline passed: these come from the RPC layer and have its
    // wording.
    ContextCanceled = Cancelled, "context canceled";
    ContextDeadlineExceeded = DeadlineExceeded, "context deadline exceeded";
}

impl EtcdError {
    /// The error as Lock and Election send it. Inside etcd they are clients of the other services,
    /// and relaying a client's error keeps its text but loses its code.
    pub fn relayed(self) -> Status {
        Status::unknown(self.text())
    }

    /// The error as a sentence of the RPC layer, the form in which a refused watch gives its
    /// reason.
    pub fn rpc_text(self) -> String {
        format!("rpc error: code = {} desc = {}", code_name(self.code()), self.text())
    }
}

impl From<EtcdError> for Status {
    fn from(error: EtcdError) -> Self {
        Self::new(error.code(), error.text())
    }
}
