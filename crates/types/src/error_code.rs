//! Error codes and phases: the part of an error that programs read.

use std::fmt;

use serde::{Deserialize, Serialize};

macro_rules! codes {
    ($($(#[doc = $doc:literal])* $variant:ident = $text:literal, retry: $retry:literal;)*) => {
        /// Stable, machine-readable failure classes. The text form is API: never renamed, only
        /// added to.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
        #[serde(rename_all = "snake_case")]
        #[non_exhaustive]
        pub enum ErrorCode { $($(#[doc = $doc])* $variant,)* }

        impl ErrorCode {
            /// Every code, in the order of the documentation's table.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// The wire form, e.g. `exec_timeout`.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $text,)* }
            }

            /// What it means, in a sentence or two: the text of the documentation's table.
            #[must_use]
            pub const fn description(self) -> &'static str {
                match self { $(Self::$variant => concat!($($doc),*).trim_ascii(),)* }
            }

            /// Whether repeating the identical call may succeed.
            #[must_use]
            pub const fn is_retryable(self) -> bool {
                match self { $(Self::$variant => $retry,)* }
            }
        }
    };
}

codes! {
    /// The configuration is malformed: an unknown field, tier, runtime, service or engine, or a
    /// value out of range.
    ConfigInvalid = "config_invalid", retry: false;
    /// A layout breaks its rules; `reasons` has every violation.
    LayoutInvalid = "layout_invalid", retry: false;
    /// The backend is known but not part of this build, or not written yet.
    BackendNotAvailable = "backend_not_available", retry: false;
    /// This host lacks what the backend needs; the hint names the cause and the fix.
    HostUnsupported = "host_unsupported", retry: false;
    /// The backend cannot enforce or do what was asked; `reasons` names every such control.
    Unsupported = "unsupported", retry: false;
    /// The request itself is malformed.
    InvalidArgument = "invalid_argument", retry: false;
    /// The sandbox, process or file does not exist, or no longer does.
    NotFound = "not_found", retry: false;
    /// It exists already.
    AlreadyExists = "already_exists", retry: false;
    /// A path leaves the roots that may be read or written.
    PathRefused = "path_refused", retry: false;
    /// A token is missing or wrong.
    Unauthenticated = "unauthenticated", retry: false;
    /// The operating system inside refused it.
    PermissionDenied = "permission_denied", retry: false;
    /// Output older than the worker still holds was asked for.
    CursorExpired = "cursor_expired", retry: false;
    /// No space is left inside.
    DiskFull = "disk_full", retry: false;
    /// The program could not be started inside.
    CommandNotStarted = "command_not_started", retry: false;
    /// The memory limit ended the command or the sandbox.
    OutOfMemory = "out_of_memory", retry: false;
    /// No connection to the worker within the connect deadline.
    ConnectTimeout = "connect_timeout", retry: true;
    /// The sandbox was not ready within the create deadline.
    CreateTimeout = "create_timeout", retry: true;
    /// The command ran longer than it may; its whole tree was killed.
    ExecTimeout = "exec_timeout", retry: false;
    /// One call to the worker or the control plane took longer than it may.
    RequestTimeout = "request_timeout", retry: true;
    /// The sandbox lived as long as it may and was destroyed.
    LifetimeExceeded = "lifetime_exceeded", retry: false;
    /// The caller cancelled it.
    Cancelled = "cancelled", retry: false;
    /// The sandbox ended while it was in use.
    SandboxLost = "sandbox_lost", retry: true;
    /// The host, daemon or service behind the backend failed.
    BackendFailed = "backend_failed", retry: true;
    /// The worker sent bytes that break the protocol, or more than the cap.
    ProtocolViolation = "protocol_violation", retry: false;
    /// A fault of our own.
    Internal = "internal", retry: false;
}

impl fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// What was being done when it failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Phase {
    /// Reading a configuration and building a provider.
    Configure,
    /// Deciding what would be enforced, before anything starts.
    Plan,
    /// Making a sandbox and waiting until it accepts commands.
    Create,
    /// Finding a sandbox again.
    Connect,
    /// Running a command.
    Exec,
    /// Reading, writing or watching files.
    Files,
    /// Carrying connections in or out.
    Tunnel,
    /// Taking a sandbox down.
    Destroy,
}

impl Phase {
    /// The wire form, e.g. `create`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Configure => "configure",
            Self::Plan => "plan",
            Self::Create => "create",
            Self::Connect => "connect",
            Self::Exec => "exec",
            Self::Files => "files",
            Self::Tunnel => "tunnel",
            Self::Destroy => "destroy",
        }
    }
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}
