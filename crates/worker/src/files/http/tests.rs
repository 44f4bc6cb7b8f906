//! The pure parts: ranges, codings, names, statuses.

use http::header::{ACCEPT_ENCODING, CONTENT_ENCODING};
use http::{HeaderMap, HeaderValue, StatusCode};
use rustix::io::Errno;

use super::range::{self, Part};
use super::{Coding, coding, date, disposition, is_gzip};
use crate::files::fail::Fail;

fn headers(name: http::HeaderName, value: &'static str) -> HeaderMap {
    HeaderMap::from_iter([(name, HeaderValue::from_static(value))])
}

#[test]
fn ranges_never_overflow() {
    let most = u64::MAX;
    for (header, size, part) in [
        (
            "bytes=0-0",
            1,
            Part::Some {
                first: 0,
                length: 1,
            },
        ),
        (
            "bytes=0-18446744073709551615",
            most,
            Part::Some {
                first: 0,
                length: most,
            },
        ),
        (
            "bytes=-18446744073709551615",
            5,
            Part::Some {
                first: 0,
                length: 5,
            },
        ),
        (
            "bytes=18446744073709551614-",
            most,
            Part::Some {
                first: most - 1,
                length: 1,
            },
        ),
        ("bytes=0-", 0, Part::Unsatisfiable),
        ("bytes=-1", 0, Part::Unsatisfiable),
        (
            "bytes= 1 - 2 ",
            9,
            Part::Some {
                first: 1,
                length: 2,
            },
        ),
        ("bytes=--1", 9, Part::Whole),
        ("bytes=1", 9, Part::Whole),
        ("bytes=", 9, Part::Whole),
    ] {
        assert_eq!(range::parse(header, size), part, "{header}");
    }
}

#[test]
fn codings_are_chosen_by_weight() {
    for (accepted, chosen) in [
        ("gzip", Some(Coding::Gzip)),
        ("GZIP;q=0.5, identity", Some(Coding::Gzip)),
        ("gzip;q=0", Some(Coding::Plain)),
        ("gzip; q=0.0, *", Some(Coding::Plain)),
        ("*;q=0", None),
        ("identity;q=0", None),
        ("*;q=0, gzip", Some(Coding::Gzip)),
        ("", Some(Coding::Plain)),
    ] {
        assert_eq!(
            coding(&headers(ACCEPT_ENCODING, accepted)),
            chosen,
            "{accepted}"
        );
    }
    assert_eq!(coding(&HeaderMap::new()), Some(Coding::Plain));
    assert!(is_gzip(&headers(CONTENT_ENCODING, "GZip")).unwrap());
    assert!(is_gzip(&headers(CONTENT_ENCODING, "gzip, gzip")).is_err());
}

#[test]
fn no_name_breaks_out_of_the_header() {
    assert_eq!(
        disposition::inline(b"plain.txt"),
        "inline; filename=plain.txt"
    );
    assert_eq!(
        disposition::inline(b"a b\"c\\"),
        r#"inline; filename="a b\"c\\""#
    );
    assert_eq!(
        disposition::inline(b"\r\nx\xff"),
        "inline; filename*=utf-8''%0D%0Ax%FF"
    );
    assert_eq!(disposition::inline(b""), "inline; filename=\"\"");
}

#[test]
fn absurd_dates_have_no_form() {
    assert_eq!(
        date::format(0).as_deref(),
        Some("Thu, 01 Jan 1970 00:00:00 GMT")
    );
    assert_eq!((date::format(-1), date::format(i64::MAX)), (None, None));
    assert_eq!(date::parse("Thu, 01 Jan 1970 00:00:01 GMT"), Some(1));
    assert_eq!(date::parse("yesterday"), None);
}

#[test]
fn a_full_disk_or_quota_is_507() {
    for errno in [Errno::NOSPC, Errno::DQUOT] {
        let fail = Fail::errno("write", b"/x", errno);
        assert_eq!(fail.status(), StatusCode::INSUFFICIENT_STORAGE);
        assert!(fail.message.starts_with("disk_full: "), "{fail:?}");
    }
    assert_eq!(
        Fail::errno("read", b"/x", Errno::NOENT).status(),
        StatusCode::NOT_FOUND
    );
    assert_eq!(
        Fail::errno("read", b"/x", Errno::ISDIR).status(),
        StatusCode::BAD_REQUEST
    );
}
