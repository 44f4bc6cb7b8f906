//! `If-…`: whether what the caller has is what there is.

use http::{HeaderMap, HeaderName, header};
use rustix::fs::Stat;

use super::date;

/// What identifies a state of a file.
#[derive(Clone, Debug)]
pub(super) struct State {
    /// Strong: any write changes it.
    pub(super) etag: String,
    /// Seconds since 1970.
    pub(super) modified: i64,
}

/// What the conditions say.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Verdict {
    /// Send it.
    Send,
    /// 304.
    NotModified,
    /// 412.
    Failed,
}

impl State {
    pub(super) fn of(stat: &Stat) -> Self {
        let (seconds, nanos) = (stat.st_ctime, stat.st_ctime_nsec);
        Self {
            etag: format!(
                "\"{:x}-{:x}-{seconds:x}.{nanos:x}\"",
                stat.st_ino, stat.st_size
            ),
            modified: stat.st_mtime,
        }
    }

    /// Weighs the conditions in the order of RFC 9110, section 13.2.2.
    pub(super) fn weigh(&self, headers: &HeaderMap) -> Verdict {
        let date = |name: HeaderName| text(headers, &name).and_then(date::parse);
        if headers.contains_key(header::IF_MATCH) {
            if !self.is_among(headers, header::IF_MATCH, false) {
                return Verdict::Failed;
            }
        } else if date(header::IF_UNMODIFIED_SINCE).is_some_and(|since| self.modified > since) {
            return Verdict::Failed;
        }
        if headers.contains_key(header::IF_NONE_MATCH) {
            if self.is_among(headers, header::IF_NONE_MATCH, true) {
                return Verdict::NotModified;
            }
        } else if date(header::IF_MODIFIED_SINCE).is_some_and(|since| self.modified <= since) {
            return Verdict::NotModified;
        }
        Verdict::Send
    }

    /// Whether a range may be honoured: `If-Range` names this state, or nothing.
    pub(super) fn allows_range(&self, headers: &HeaderMap) -> bool {
        match headers.get(header::IF_RANGE) {
            None => true,
            Some(value) => match value.to_str() {
                Ok(tag) if tag.trim_start().starts_with('"') => tag.trim() == self.etag,
                Ok(text) => date::parse(text) == Some(self.modified),
                Err(_) => false,
            },
        }
    }

    fn is_among(&self, headers: &HeaderMap, name: HeaderName, weakly: bool) -> bool {
        headers
            .get_all(name)
            .iter()
            .filter_map(|value| value.to_str().ok())
            .flat_map(|value| value.split(','))
            .map(str::trim)
            .any(|tag| {
                let tag = if weakly {
                    tag.strip_prefix("W/").unwrap_or(tag)
                } else {
                    tag
                };
                tag == "*" || tag == self.etag
            })
    }
}

pub(super) fn text<'h>(headers: &'h HeaderMap, name: &HeaderName) -> Option<&'h str> {
    headers.get(name)?.to_str().ok()
}
