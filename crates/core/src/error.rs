//! The one error type that crosses a public boundary.

use std::error::Error as StdError;
use std::fmt;

use namzu_types::{ConfigError, ErrorCode, Phase};

/// A result whose error is [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// A code for programs, a message and a hint for people, a cause chain for operators.
pub struct Error {
    inner: Box<Inner>,
}

struct Inner {
    code: ErrorCode,
    phase: Option<Phase>,
    backend: Option<String>,
    message: String,
    reasons: Vec<String>,
    hint: Option<String>,
    source: Option<Box<dyn StdError + Send + Sync>>,
}

impl Error {
    /// An error without a cause. The message says what was attempted, lower case, no full stop.
    #[must_use]
    pub fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        Self {
            inner: Box::new(Inner {
                code,
                phase: None,
                backend: None,
                message: message.into(),
                reasons: Vec::new(),
                hint: None,
                source: None,
            }),
        }
    }

    /// Attaches the cause.
    #[must_use]
    pub fn with_source(mut self, source: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        self.inner.source = Some(source.into());
        self
    }

    /// Says what a person can do about it.
    #[must_use]
    pub fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.inner.hint = Some(hint.into());
        self
    }

    /// Lists every violation or refused control.
    #[must_use]
    pub fn with_reasons(mut self, reasons: Vec<String>) -> Self {
        self.inner.reasons = reasons;
        self
    }

    /// Says what was being done. The innermost caller wins.
    #[must_use]
    pub fn during(mut self, phase: Phase) -> Self {
        self.inner.phase.get_or_insert(phase);
        self
    }

    /// Names the backend. The innermost caller wins.
    #[must_use]
    pub fn on(mut self, backend: &str) -> Self {
        self.inner.backend.get_or_insert_with(|| backend.to_owned());
        self
    }

    /// The stable class of this error.
    #[must_use]
    pub fn code(&self) -> ErrorCode {
        self.inner.code
    }

    /// What was being done.
    #[must_use]
    pub fn phase(&self) -> Option<Phase> {
        self.inner.phase
    }

    /// The backend's label, e.g. `process:bubblewrap`.
    #[must_use]
    pub fn backend(&self) -> Option<&str> {
        self.inner.backend.as_deref()
    }

    /// Every violation or refused control.
    #[must_use]
    pub fn reasons(&self) -> &[String] {
        &self.inner.reasons
    }

    /// What a person can do about it.
    #[must_use]
    pub fn hint(&self) -> Option<&str> {
        self.inner.hint.as_deref()
    }

    /// Whether repeating the identical call may succeed.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        self.inner.code.is_retryable()
    }
}

impl From<ConfigError> for Error {
    fn from(err: ConfigError) -> Self {
        Self::new(ErrorCode::ConfigInvalid, "invalid configuration")
            .with_reasons(err.into_reasons())
            .during(Phase::Configure)
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Inner {
            code,
            phase,
            backend,
            message,
            reasons,
            hint,
            source,
        } = &*self.inner;
        f.debug_struct("Error")
            .field("code", code)
            .field("phase", phase)
            .field("backend", backend)
            .field("message", message)
            .field("reasons", reasons)
            .field("hint", hint)
            .field("source", source)
            .finish()
    }
}

impl fmt::Display for Error {
    // Never prints the source: `Chain` and the loggers walk it, and printing it twice is noise.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.inner.message)?;
        if let [first, rest @ ..] = self.inner.reasons.as_slice() {
            write!(f, ": {first}")?;
            for reason in rest {
                write!(f, "; {reason}")?;
            }
        }
        Ok(())
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.inner.source.as_deref().map(|s| s as _)
    }
}

/// Displays an error and every cause on one line, colon-separated.
#[derive(Debug)]
pub struct Chain<'a>(pub &'a (dyn StdError + 'static));

impl fmt::Display for Chain<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)?;
        let mut next = self.0.source();
        while let Some(err) = next {
            write!(f, ": {err}")?;
            next = err.source();
        }
        Ok(())
    }
}
