//! Parsers of single values: sizes, durations, mounts, variables, locations. Pure.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use clap::builder::{OsStringValueParser, StringValueParser, TypedValueParser};
use namzu_sandbox::types::{Access, SandboxId};

/// `DIR[:ro|:rw]`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mount {
    /// As typed, without the suffix.
    pub path: PathBuf,
    /// Read-write unless the suffix says otherwise.
    pub access: Access,
}

/// `KEY=VALUE`, or `KEY` to copy the host's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EnvVar {
    /// Name.
    pub key: String,
    /// Value, when given.
    pub value: Option<String>,
}

/// `KEY=VALUE`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Label {
    /// Name.
    pub key: String,
    /// Value.
    pub value: String,
}

/// A number of processors above zero.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cpus(pub f64);

/// One side of a copy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Location {
    /// `-`
    Standard,
    /// A path of the host.
    Host(PathBuf),
    /// `ID:PATH`
    Sandbox {
        /// The sandbox.
        id: SandboxId,
        /// The path inside; relative to the workspace.
        path: PathBuf,
    },
}

/// The largest size: beyond any machine, and within every kernel's signed arithmetic.
const MAX_SIZE: u64 = 1 << 60;

/// The longest time: beyond anybody's patience, and within every clock's arithmetic.
const MAX_TIME: Duration = Duration::from_secs(3650 * 86_400);

/// A size in bytes: a number with an optional unit `k`, `m`, `g` or `t` (powers of 1024; a `b` or
/// `ib` after it changes nothing).
///
/// # Errors
///
/// What is wrong with the text.
pub fn size(text: &str) -> Result<u64, String> {
    let lower = text.to_ascii_lowercase();
    let digits = lower
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(lower.len());
    let (number, unit) = lower.split_at(digits);
    if number.is_empty() {
        return Err("expected a whole number of bytes, e.g. 512m".to_owned());
    }
    // Digits that make no number are too many.
    let number: u64 = number.parse().map_err(|_| too_large())?;
    let shift = match unit {
        "" | "b" => 0,
        "k" | "kb" | "kib" => 10,
        "m" | "mb" | "mib" => 20,
        "g" | "gb" | "gib" => 30,
        "t" | "tb" | "tib" => 40,
        _ => return Err(format!("unknown unit `{unit}`: use k, m, g or t")),
    };
    if number == 0 {
        return Err("must be above zero".to_owned());
    }
    number
        .checked_mul(1 << shift)
        .filter(|size| *size <= MAX_SIZE)
        .ok_or_else(too_large)
}

fn too_large() -> String {
    format!("too large: at most {}t", MAX_SIZE >> 40)
}

/// A time: a number with a unit `ms`, `s`, `m`, `h` or `d`, or several such (`1h30m`). A bare
/// number is seconds.
///
/// # Errors
///
/// What is wrong with the text.
pub fn duration(text: &str) -> Result<Duration, String> {
    const SHAPE: &str = "expected a time such as 500ms, 30s, 5m or 1h30m";
    if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
        let seconds = text.parse().map_err(|_| too_long())?;
        return in_range(Duration::from_secs(seconds));
    }
    let mut rest = text;
    let mut total = Duration::ZERO;
    while !rest.is_empty() {
        let digits = rest
            .find(|c: char| !c.is_ascii_digit())
            .ok_or_else(|| SHAPE.to_owned())?;
        if digits == 0 {
            return Err(SHAPE.to_owned());
        }
        let number: u64 = rest[..digits].parse().map_err(|_| too_long())?;
        let tail = &rest[digits..];
        let end = tail
            .find(|c: char| c.is_ascii_digit())
            .unwrap_or(tail.len());
        let millis: u64 = match &tail[..end] {
            "ms" => 1,
            "s" => 1_000,
            "m" => 60_000,
            "h" => 3_600_000,
            "d" => 86_400_000,
            unit => return Err(format!("unknown unit `{unit}`: use ms, s, m, h or d")),
        };
        total = number
            .checked_mul(millis)
            .map(Duration::from_millis)
            .and_then(|part| total.checked_add(part))
            .ok_or_else(too_long)?;
        rest = &tail[end..];
    }
    in_range(total)
}

fn in_range(time: Duration) -> Result<Duration, String> {
    if time.is_zero() {
        Err("must be above zero".to_owned())
    } else if time > MAX_TIME {
        Err(too_long())
    } else {
        Ok(time)
    }
}

fn too_long() -> String {
    format!("too long: at most {}d", MAX_TIME.as_secs() / 86_400)
}

/// Parser of [`Mount`]; host paths need not be UTF-8.
pub(crate) fn mount() -> impl TypedValueParser<Value = Mount> {
    OsStringValueParser::new().try_map(|text| {
        let bytes = text.as_bytes();
        let (path, access) = if let Some(path) = bytes.strip_suffix(b":ro") {
            (path, Access::ReadOnly)
        } else {
            let path = bytes.strip_suffix(b":rw").unwrap_or(bytes);
            (path, Access::ReadWrite)
        };
        if path.is_empty() {
            return Err("the directory is empty".to_owned());
        }
        Ok(Mount {
            path: PathBuf::from(OsString::from_vec(path.to_vec())),
            access,
        })
    })
}

/// Parser of [`EnvVar`].
pub(crate) fn env_var() -> impl TypedValueParser<Value = EnvVar> {
    StringValueParser::new().try_map(|text| {
        let (key, value) = match text.split_once('=') {
            Some((key, value)) => (key, Some(value.to_owned())),
            None => (text.as_str(), None),
        };
        if key.is_empty() {
            return Err("the name is empty");
        }
        Ok(EnvVar {
            key: key.to_owned(),
            value,
        })
    })
}

/// Parser of [`Location`]. `ID:PATH` only where the part before the first colon is an id; a host
/// path of that form is written `./ID:PATH`.
pub(crate) fn location() -> impl TypedValueParser<Value = Location> {
    OsStringValueParser::new().try_map(|text| {
        if text == "-" {
            return Ok(Location::Standard);
        }
        let bytes = text.as_bytes();
        let colon = bytes.iter().position(|b| *b == b':');
        let id = colon
            .and_then(|at| std::str::from_utf8(&bytes[..at]).ok())
            .and_then(|id| SandboxId::from_str(id).ok());
        let (Some(at), Some(id)) = (colon, id) else {
            if text.is_empty() {
                return Err("the path is empty");
            }
            return Ok(Location::Host(PathBuf::from(text)));
        };
        // The workspace itself, when nothing is named.
        let path = match &bytes[at + 1..] {
            b"" => PathBuf::from("."),
            path => PathBuf::from(OsString::from_vec(path.to_vec())),
        };
        Ok(Location::Sandbox { id, path })
    })
}

impl FromStr for Label {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.split_once('=') {
            Some((key, value)) if !key.is_empty() => Ok(Self {
                key: key.to_owned(),
                value: value.to_owned(),
            }),
            _ => Err("expected KEY=VALUE"),
        }
    }
}

impl FromStr for Cpus {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.parse::<f64>() {
            Ok(cpus) if cpus.is_finite() && cpus > 0.0 => Ok(Self(cpus)),
            _ => Err("expected a number above zero, e.g. 0.5"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_powers_of_1024() {
        for (text, bytes) in [
            ("1", 1),
            ("7b", 7),
            ("4k", 4096),
            ("512m", 512 << 20),
            ("512MiB", 512 << 20),
            ("1GB", 1 << 30),
            ("2t", 2 << 40),
        ] {
            assert_eq!(size(text), Ok(bytes), "{text}");
        }
    }

    #[test]
    fn a_size_that_is_none_is_refused() {
        for text in [
            "",
            "0",
            "0m",
            "m",
            "-1",
            "1.5g",
            "1x",
            "1 m",
            "99999999999999999999",
            "99999999999t",
        ] {
            assert!(size(text).is_err(), "{text}");
        }
    }

    #[test]
    fn what_is_above_the_limit_names_it() {
        assert_eq!(size("1048576t"), Ok(1 << 60));
        for text in ["1048577t", "18446744073709551615", "99999999999999999999"] {
            assert_eq!(size(text).unwrap_err(), "too large: at most 1048576t");
        }
        assert_eq!(duration("3650d"), Ok(MAX_TIME));
        for text in [
            "3651d",
            "3650d1ms",
            "18446744073709551615",
            "18446744073709551616",
            "18446744073709551615ms",
            "99999999999999999999s",
        ] {
            let said = duration(text).unwrap_err();
            assert_eq!(said, "too long: at most 3650d", "{text}");
        }
    }

    #[test]
    fn times_add_up() {
        for (text, millis) in [
            ("30", 30_000),
            ("500ms", 500),
            ("30s", 30_000),
            ("5m", 300_000),
            ("1h30m", 5_400_000),
            ("2d", 172_800_000),
        ] {
            assert_eq!(duration(text), Ok(Duration::from_millis(millis)), "{text}");
        }
    }

    #[test]
    fn a_time_that_is_none_is_refused() {
        for text in [
            "",
            "0",
            "0s",
            "s",
            "1y",
            "-5s",
            "1.5s",
            "1h30",
            "99999999999999999d",
            "1é",
        ] {
            assert!(duration(text).is_err(), "{text}");
        }
    }

    #[test]
    fn processors_are_finite_and_above_zero() {
        assert_eq!("0.5".parse(), Ok(Cpus(0.5)));
        for text in ["0", "-1", "nan", "inf", "", "two"] {
            assert!(text.parse::<Cpus>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_label_needs_a_key_and_keeps_later_equals_signs() {
        let label: Label = "a=b=c".parse().unwrap();
        assert_eq!((label.key.as_str(), label.value.as_str()), ("a", "b=c"));
        assert!("=b".parse::<Label>().is_err());
        assert!("a".parse::<Label>().is_err());
    }
}
