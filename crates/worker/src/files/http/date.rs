//! HTTP dates.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Writes whole seconds since 1970 as an HTTP date. What lies before it, or after the year 9999, has none.
pub(super) fn format(seconds: i64) -> Option<String> {
    let seconds = u64::try_from(seconds)
        .ok()
        .filter(|seconds| *seconds < 253_402_300_800)?;
    Some(httpdate::fmt_http_date(
        UNIX_EPOCH + Duration::from_secs(seconds),
    ))
}

/// Reads an HTTP date as seconds since 1970.
pub(super) fn parse(text: &str) -> Option<i64> {
    let time: SystemTime = httpdate::parse_http_date(text).ok()?;
    i64::try_from(time.duration_since(UNIX_EPOCH).ok()?.as_secs()).ok()
}
