//! Our own extension, signed URLs and queries.

use namzu_protocol::ext::{
    Info, KillRequest, LaneError, LaneMessage, STDERR, STDIN, STDOUT, format_oldest, from_json,
    parse_oldest, to_json,
};
use namzu_protocol::process::Cursor;
use namzu_protocol::query::{self, FilesQuery, QueryError};
use namzu_protocol::signature::{Operation, SignatureError, constant_time_eq, sign, verify};

#[test]
fn a_lane_message_is_nine_bytes() {
    let message = LaneMessage {
        id: 0x0102,
        mask: STDOUT | STDERR,
    };
    assert_eq!(message.encode(), [2, 1, 0, 0, 0, 0, 0, 0, 6]);
    assert_eq!(LaneMessage::decode(&message.encode()), Ok(message));
    assert_eq!(message.descriptors(), 2);
    assert_eq!(
        LaneMessage::decode(&[0, 0, 0, 0, 0, 0, 0, 0, STDIN | 8]),
        Err(LaneError::Mask(9))
    );
    assert_eq!(LaneMessage::decode(&[0; 9]), Err(LaneError::Mask(0)));
    assert_eq!(LaneMessage::decode(&[]), Err(LaneError::Length(0)));
    assert_eq!(LaneMessage::decode(&[1; 10]), Err(LaneError::Length(10)));
}

#[test]
fn oldest_positions_survive_the_header() {
    let oldest = Cursor {
        stdout: 0,
        stderr: u64::MAX,
        pty: 7,
    };
    let header = "stdout=0,stderr=18446744073709551615,pty=7";
    assert_eq!(format_oldest(&oldest), header);
    assert_eq!(parse_oldest(header), Ok(oldest));
    for bad in [
        "",
        "stdout=1",
        "stdout=1,stderr=1",
        "stdout=1,stderr=1,pty=",
        "stdout=+1,stderr=1,pty=1",
        "stdout=1,stderr=1,pty=18446744073709551616",
        "stderr=1,stdout=1,pty=1",
        "stdout=1,stderr=1,pty=1,",
        "stdout=01,stderr=1,pty=1",
    ] {
        assert!(parse_oldest(bad).is_err(), "{bad}");
    }
}

#[test]
fn bodies_survive_json_and_an_older_worker_can_be_read() {
    let kill = KillRequest {
        tag: Some("t".to_owned()),
        signal: 9,
        tree: true,
        ..Default::default()
    };
    let json = br#"{"tag":"t","signal":9,"tree":true}"#;
    assert_eq!(to_json(&kill), json);
    assert_eq!(from_json::<KillRequest>(json).unwrap(), kill);
    assert!(from_json::<KillRequest>(br#"{"signal":9,"treee":true}"#).is_err());
    assert!(from_json::<KillRequest>(br#"{"pid":1}"#).is_err());
    let info: Info = from_json(br#"{"version":"1","later":true}"#).unwrap();
    assert_eq!(info.version, "1");
}

#[test]
fn a_signature_is_what_the_sdks_compute() {
    // printf '%s' '/a b:read:user:tok:5' | openssl dgst -sha256 -binary | base64, padding cut.
    let expected = "v1_49N/ZXVWLmQ1sMcB12r1mnChYh1lVjzGG+t7TXbrPq0";
    assert_eq!(
        sign("/a b", Operation::Read, "user", "tok", Some(5)),
        expected
    );
    // printf '%s' '/a:write::tok' | openssl dgst -sha256 -binary | base64, padding cut.
    assert_eq!(
        sign("/a", Operation::Write, "", "tok", None),
        "v1_Q5P1lR77D42gAO/ZDcvuB7/fk7tghA70YKm+MnTldA4"
    );
}

#[test]
fn a_signed_url_allows_nothing_else() {
    let query = FilesQuery {
        path: Some("/a".to_owned()),
        username: Some("user".to_owned()),
        signature: Some(sign("/a", Operation::Read, "user", "tok", Some(100))),
        signature_expiration: Some(100),
    };
    let check = |query: &FilesQuery| verify(query, Operation::Read, "tok", 100);
    assert_eq!(check(&query), Ok(()));
    assert_eq!(
        verify(&query, Operation::Read, "tok", 101),
        Err(SignatureError::Expired)
    );
    assert_eq!(
        verify(&query, Operation::Write, "tok", 100),
        Err(SignatureError::Invalid)
    );
    assert_eq!(
        verify(&query, Operation::Read, "other", 100),
        Err(SignatureError::Invalid)
    );
    for altered in [
        FilesQuery {
            path: Some("/b".to_owned()),
            ..query.clone()
        },
        FilesQuery {
            username: None,
            ..query.clone()
        },
        FilesQuery {
            signature_expiration: Some(101),
            ..query.clone()
        },
        FilesQuery {
            signature_expiration: None,
            ..query.clone()
        },
        FilesQuery {
            signature: Some(String::new()),
            ..query.clone()
        },
    ] {
        assert_eq!(check(&altered), Err(SignatureError::Invalid), "{altered:?}");
    }
    let unsigned = FilesQuery {
        signature: None,
        ..query
    };
    assert_eq!(check(&unsigned), Err(SignatureError::Missing));
}

#[test]
fn a_signed_read_does_not_pass_for_a_write_of_a_shorter_path() {
    let read = sign("/a:write:b", Operation::Read, "", "tok", None);
    let forged = FilesQuery {
        path: Some("/a".to_owned()),
        username: Some("b:read:".to_owned()),
        signature: Some(read),
        signature_expiration: None,
    };
    assert_eq!(
        verify(&forged, Operation::Write, "tok", 0),
        Err(SignatureError::Invalid)
    );
}

#[test]
fn an_expiration_of_zero_is_a_value() {
    let zero = FilesQuery {
        path: Some("/a".to_owned()),
        signature: Some(sign("/a", Operation::Read, "", "tok", Some(0))),
        signature_expiration: Some(0),
        ..Default::default()
    };
    assert_eq!(
        verify(&zero, Operation::Read, "tok", 1),
        Err(SignatureError::Expired)
    );
}

#[test]
fn secrets_compare_by_content() {
    assert!(constant_time_eq(b"abc", b"abc"));
    assert!(constant_time_eq(b"", b""));
    assert!(!constant_time_eq(b"abc", b"abd"));
    assert!(!constant_time_eq(b"abc", b"ab"));
}

#[test]
fn queries_survive_encoding() {
    let query = FilesQuery {
        path: Some("/a b/ü&=%+#?.txt".to_owned()),
        username: Some(String::new()),
        signature: Some("v1_+/".to_owned()),
        signature_expiration: Some(0),
    };
    let text = query.build();
    assert!(text.starts_with("path=%2Fa%20b%2F%C3%BC%26%3D%25%2B%23%3F.txt&username=&"));
    assert_eq!(FilesQuery::parse(&text), Ok(query));
    assert_eq!(
        FilesQuery::parse("path=a+b&other=1&&x"),
        Ok(FilesQuery {
            path: Some("a b".to_owned()),
            ..Default::default()
        })
    );
}

#[test]
fn malformed_queries_are_refused() {
    for (text, error) in [
        ("path=%", QueryError::InvalidEscape),
        ("path=%4", QueryError::InvalidEscape),
        ("path=%4g", QueryError::InvalidEscape),
        ("path=%ff", QueryError::NotUtf8),
        ("path=a&path=b", QueryError::Repeated("path")),
        (
            "signature_expiration=x",
            QueryError::NotANumber("signature_expiration"),
        ),
        (
            "signature_expiration=-1",
            QueryError::NotANumber("signature_expiration"),
        ),
    ] {
        assert_eq!(FilesQuery::parse(text), Err(error), "{text}");
    }
    assert_eq!(
        query::get("port=80&x=%zz", "port"),
        Err(QueryError::InvalidEscape)
    );
}
