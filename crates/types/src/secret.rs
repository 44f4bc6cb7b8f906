//! Secrets, and where values come from.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de, ser};

/// A value that neither `Debug` nor `Display` shows, and that is wiped from no log by hand.
///
/// Read it with [`Secret::expose`]: `grep expose` is where a review of secrets begins.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Wraps a value.
    #[must_use]
    pub fn new(value: impl Into<String>) -> Self {
        Self(value.into())
    }

    /// The value itself.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}

/// The boxed future a [`Callback`] returns.
type CallbackFuture =
    Pin<Box<dyn Future<Output = Result<String, Box<dyn std::error::Error + Send + Sync>>> + Send>>;

/// A closure that gives a value each time it is asked: a fresh token, or the hosts of a policy,
/// one a line.
#[derive(Clone)]
pub struct Callback(Arc<dyn Fn() -> CallbackFuture + Send + Sync>);

impl Callback {
    /// Wraps an async closure.
    pub fn new<F, Fut>(ask: F) -> Self
    where
        F: Fn() -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<String, Box<dyn std::error::Error + Send + Sync>>>
            + Send
            + 'static,
    {
        Self(Arc::new(move || Box::pin(ask())))
    }

    /// Asks the closure.
    ///
    /// # Errors
    ///
    /// Whatever the closure fails with.
    pub async fn ask(&self) -> Result<String, Box<dyn std::error::Error + Send + Sync>> {
        (self.0)().await
    }
}

impl fmt::Debug for Callback {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Callback(..)")
    }
}

impl PartialEq for Callback {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

/// Where a value comes from. In a file: a string, or an object with one of `env`, `file`,
/// `command`. In Rust also a closure, which has no JSON form.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum ValueSource {
    /// The value itself.
    Value(Secret),
    /// An environment variable of the host process.
    Env(String),
    /// A file on the host, read at each use; one trailing newline is dropped.
    File(String),
    /// The standard output of a program, run at each use; one trailing newline is dropped.
    Command(Vec<String>),
    /// A closure, asked at each use.
    Callback(Callback),
}

/// Says where a value is, without being it.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
enum Reference {
    /// Name of an environment variable of the host process.
    Env(String),
    /// Path of a file on the host.
    File(String),
    /// Program and arguments. Its standard output is the value.
    Command(#[schemars(length(min = 1))] Vec<String>),
}

/// Where a value comes from: the value itself, or one of `env`, `file` and `command`.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
enum Wire {
    /// The value itself.
    Value(String),
    /// Where to find it.
    Reference(Reference),
}

impl Serialize for ValueSource {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let wire = match self {
            // A round trip of a configuration that holds a literal secret would print it.
            Self::Value(_) => {
                return Err(ser::Error::custom(
                    "a literal secret is never written out; use env, file or command",
                ));
            }
            Self::Env(name) => Reference::Env(name.clone()),
            Self::File(path) => Reference::File(path.clone()),
            Self::Command(argv) => Reference::Command(argv.clone()),
            Self::Callback(_) => return Err(ser::Error::custom("a closure has no JSON form")),
        };
        wire.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for ValueSource {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = serde_json::Value::deserialize(deserializer)?;
        if let serde_json::Value::String(literal) = value {
            return Ok(Self::Value(Secret(literal)));
        }
        match Reference::deserialize(value).map_err(de::Error::custom)? {
            Reference::Env(name) if name.is_empty() || name.contains(['=', '\0']) => {
                Err(de::Error::custom(
                    "the name of an environment variable is empty or holds `=` or NUL",
                ))
            }
            Reference::Env(name) => Ok(Self::Env(name)),
            Reference::File(path) if path.is_empty() || path.contains('\0') => Err(
                de::Error::custom("the path of a file is empty or holds NUL"),
            ),
            Reference::File(path) => Ok(Self::File(path)),
            Reference::Command(argv)
                if argv.first().is_none_or(String::is_empty)
                    || argv.iter().any(|argument| argument.contains('\0')) =>
            {
                Err(de::Error::custom("a command is empty or holds NUL"))
            }
            Reference::Command(argv) => Ok(Self::Command(argv)),
        }
    }
}

impl JsonSchema for ValueSource {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "ValueSource".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        Wire::json_schema(generator)
    }
}
