//! Why a file call failed, before a wire gives it its form.

use http::StatusCode;
use rustix::io::Errno;

/// The class of a failure; each wire has its own word for it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Kind {
    /// Nothing is there.
    NotFound,
    /// Something is there already.
    AlreadyExists,
    /// The request makes no sense, or not for what is there.
    InvalidArgument,
    /// The path leaves the roots.
    Refused,
    /// The operating system says no.
    Denied,
    /// The disk or the quota is full.
    NoSpace,
    /// A signature, token or user is missing or wrong.
    Unauthenticated,
    /// A cap of the worker.
    TooMuch,
    /// Everything else.
    Internal,
}

/// A failed file call.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Fail {
    /// Its class.
    pub(crate) kind: Kind,
    /// What was attempted and why it failed, for people.
    pub(crate) message: String,
}

/// The result of a file call.
pub(crate) type Outcome<T> = Result<T, Fail>;

impl Fail {
    pub(crate) fn new(kind: Kind, message: impl Into<String>) -> Self {
        Self {
            kind,
            message: message.into(),
        }
    }

    pub(crate) fn invalid(message: impl Into<String>) -> Self {
        Self::new(Kind::InvalidArgument, message)
    }

    /// A path that leaves the roots. The text never says what is outside.
    pub(crate) fn refused(path: &[u8], why: &str) -> Self {
        Self::new(
            Kind::Refused,
            format!("path_refused: '{}' {why}", show(path)),
        )
    }

    /// A failed call to the kernel while doing `what` to `path`.
    pub(crate) fn errno(what: &str, path: &[u8], errno: Errno) -> Self {
        let kind = match errno {
            Errno::NOENT => Kind::NotFound,
            Errno::EXIST | Errno::NOTEMPTY => Kind::AlreadyExists,
            Errno::ACCESS | Errno::PERM | Errno::ROFS => Kind::Denied,
            Errno::NOSPC | Errno::DQUOT => Kind::NoSpace,
            Errno::LOOP | Errno::XDEV => Kind::Refused,
            Errno::NOTDIR
            | Errno::ISDIR
            | Errno::NAMETOOLONG
            | Errno::INVAL
            | Errno::BUSY
            | Errno::NXIO => Kind::InvalidArgument,
            Errno::MFILE | Errno::NFILE | Errno::NOMEM => Kind::TooMuch,
            _ => Kind::Internal,
        };
        // What Connect has no code for is named.
        let prefix = match kind {
            Kind::Refused => "path_refused: ",
            Kind::NoSpace => "disk_full: ",
            _ => "",
        };
        Self::new(
            kind,
            format!("{prefix}{what} '{}': {}", show(path), describe(errno)),
        )
    }

    /// The HTTP status of envd's file calls.
    pub(crate) fn status(&self) -> StatusCode {
        match self.kind {
            Kind::NotFound => StatusCode::NOT_FOUND,
            Kind::AlreadyExists => StatusCode::CONFLICT,
            Kind::InvalidArgument => StatusCode::BAD_REQUEST,
            Kind::Refused | Kind::Denied => StatusCode::FORBIDDEN,
            Kind::NoSpace => StatusCode::INSUFFICIENT_STORAGE,
            Kind::Unauthenticated => StatusCode::UNAUTHORIZED,
            Kind::TooMuch => StatusCode::TOO_MANY_REQUESTS,
            Kind::Internal => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }
}

/// The answer of an HTTP call that failed.
impl From<Fail> for crate::http::Response {
    fn from(fail: Fail) -> Self {
        crate::http::error(fail.status(), fail.message)
    }
}

/// A failed read or write of `path`, whose error may wrap an errno.
pub(crate) fn io(what: &str, path: &[u8], error: &std::io::Error) -> Fail {
    match Errno::from_io_error(error) {
        Some(errno) => Fail::errno(what, path, errno),
        None => Fail::new(Kind::Internal, format!("{what} '{}': {error}", show(path))),
    }
}

/// Bytes of a path as text for a message.
pub(crate) fn show(path: &[u8]) -> String {
    String::from_utf8_lossy(path).into_owned()
}

fn describe(errno: Errno) -> String {
    match errno {
        Errno::NOENT => "no such file or directory".into(),
        Errno::EXIST => "already exists".into(),
        Errno::LOOP => "too many symbolic links, or a link that may not be followed".into(),
        Errno::NOTDIR => "not a directory".into(),
        Errno::ISDIR => "is a directory".into(),
        Errno::NOSPC => "no space left on device".into(),
        Errno::DQUOT => "quota exceeded".into(),
        Errno::NOTEMPTY => "directory not empty".into(),
        other => {
            let text = std::io::Error::from(other).to_string();
            text.split(" (os error")
                .next()
                .unwrap_or(&text)
                .to_lowercase()
        }
    }
}
