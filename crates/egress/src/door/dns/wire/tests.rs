//! Messages of names: what is read of them, and what is none.

use super::*;

/// A query for `labels`, with `tail` after the question and `counts` in the header.
fn query(labels: &[&[u8]], kind: u16, counts: [u16; 4], tail: &[u8]) -> Vec<u8> {
    let mut out = vec![0xab, 0xcd, 0x01, 0x00];
    out.extend(counts.iter().flat_map(|count| count.to_be_bytes()));
    for label in labels {
        out.push(u8::try_from(label.len()).unwrap());
        out.extend_from_slice(label);
    }
    out.push(0);
    out.extend(kind.to_be_bytes());
    out.extend(IN.to_be_bytes());
    out.extend_from_slice(tail);
    out
}

fn simple() -> Vec<u8> {
    query(&[b"API", b"example", b"com"], A, [1, 0, 0, 0], &[])
}

/// An EDNS record of `version` with `options`.
fn opt(version: u8, options: &[u8]) -> Vec<u8> {
    let mut out = vec![0, 0, 41, 0x10, 0, 0, version, 0, 0];
    out.extend(u16::try_from(options.len()).unwrap().to_be_bytes());
    out.extend_from_slice(options);
    out
}

fn formerr(message: &[u8]) -> bool {
    matches!(
        read(message),
        Err(Garbage::Answered {
            code: Code::FormErr,
            ..
        })
    )
}

#[test]
fn a_question_is_read_and_repeated_letter_for_letter() {
    let message = simple();
    let query = read(&message).unwrap();
    assert_eq!(query.name.as_deref(), Some("API.example.com"));
    assert_eq!((query.kind, query.class, query.edns), (A, IN, false));
    let answer = query.answer(
        Code::NoError,
        Record::Address([198, 18, 0, 1].into(), 60),
        Some((15, "nobody can see this")),
    );
    let mut expected = vec![0xab, 0xcd, 0x81, 0x80, 0, 1, 0, 1, 0, 0, 0, 0];
    expected.extend(&message[12..]);
    expected.extend([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4, 198, 18, 0, 1]);
    assert_eq!(answer, expected);
}

#[test]
fn a_refusal_says_why_where_the_query_has_edns() {
    let message = query(
        &[b"a", b"test"],
        A,
        [1, 0, 0, 1],
        &opt(0, &[0, 10, 0, 2, 1, 2]),
    );
    let query = read(&message).unwrap();
    assert!(query.edns);
    let answer = query.answer(Code::NxDomain, Record::None, Some((15, "why")));
    assert_eq!(answer[3] & 0xf, 3);
    let record = [
        0, 0, 41, 0x04, 0xd0, 0, 0, 0, 0, 0, 9, 0, 15, 0, 5, 0, 15, b'w', b'h', b'y',
    ];
    assert!(answer.ends_with(&record), "{answer:?}");
}

#[test]
fn any_count_but_one_question_is_garbage() {
    for counts in [
        [0, 0, 0, 0],
        [2, 0, 0, 0],
        [65535, 0, 0, 0],
        [1, 1, 0, 0],
        [1, 0, 1, 0],
        [1, 0, 0, 2],
    ] {
        assert!(
            formerr(&query(&[b"a", b"test"], A, counts, &[])),
            "{counts:?}"
        );
    }
}

#[test]
fn a_compressed_name_is_garbage_and_no_loop() {
    for pointer in [[0xc0, 12], [0xc0, 0], [0xff, 0xff], [0x40, 0], [0x80, 0]] {
        let mut message = vec![0xab, 0xcd, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
        message.extend(pointer);
        message.extend([0, 1, 0, 1]);
        assert!(formerr(&message), "{pointer:?}");
    }
}

#[test]
fn a_query_cut_anywhere_is_garbage() {
    let whole = query(
        &[b"a", b"test"],
        A,
        [1, 0, 0, 1],
        &opt(0, &[0, 10, 0, 2, 1, 2]),
    );
    read(&whole).unwrap();
    for length in 0..whole.len() {
        let cut = read(&whole[..length]);
        if length < 12 {
            assert_eq!(cut, Err(Garbage::Silent));
        } else {
            assert!(formerr(&whole[..length]), "{length}");
        }
    }
    let mut longer = whole;
    longer.push(0);
    assert!(formerr(&longer), "bytes after the end");
}

#[test]
fn a_name_longer_than_names_are_is_garbage() {
    let label = [b'a'; 63];
    let longest = query(
        &[&label, &label, &label, &label[..61]],
        A,
        [1, 0, 0, 0],
        &[],
    );
    assert_eq!(read(&longest).unwrap().name.unwrap().len(), 253);
    assert!(formerr(&query(
        &[&label, &label, &label, &label[..62]],
        A,
        [1, 0, 0, 0],
        &[]
    )));
}

#[test]
fn a_label_with_what_no_host_has_is_no_name() {
    for label in [&b"a.b"[..], b"a\0b", b"a b", b"\xff", b"a%2eb", b"*"] {
        let message = query(&[label, b"test"], A, [1, 0, 0, 0], &[]);
        assert_eq!(read(&message).unwrap().name, None, "{label:?}");
    }
    let root = query(&[], A, [1, 0, 0, 0], &[]);
    assert_eq!(read(&root).unwrap().name.as_deref(), Some(""));
}

#[test]
fn an_answer_is_never_answered() {
    let mut message = simple();
    message[2] |= 0x80;
    assert_eq!(read(&message), Err(Garbage::Silent));
    assert_eq!(Garbage::Silent.answer(), None);
}

#[test]
fn garbage_is_answered_with_nothing_of_it() {
    let mut message = simple();
    message.truncate(20);
    let answer = read(&message).unwrap_err().answer().unwrap();
    assert_eq!(answer, [0xab, 0xcd, 0x81, 0x81, 0, 0, 0, 0, 0, 0, 0, 0]);
}

#[test]
fn another_operation_or_version_of_edns_is_not_implemented() {
    let mut update = simple();
    update[2] |= 5 << 3;
    let answer = read(&update).unwrap_err().answer().unwrap();
    assert_eq!(answer[3] & 0xf, 4);
    let message = query(&[b"a", b"test"], A, [1, 0, 0, 1], &opt(1, &[]));
    let answer = read(&message).unwrap_err().answer().unwrap();
    assert_eq!(answer[3] & 0xf, 0, "its lower half");
    assert!(answer.ends_with(&[0, 0, 41, 0x04, 0xd0, 1, 0, 0, 0, 0, 0]));
}

#[test]
fn what_follows_the_question_is_edns_or_garbage() {
    let tail = |tail: &[u8]| query(&[b"a", b"test"], A, [1, 0, 0, 1], tail);
    let mut named = opt(0, &[]);
    named.splice(0..1, [1, b'x', 0]);
    assert!(formerr(&tail(&named)), "an EDNS record with a name");
    let mut other = opt(0, &[]);
    other[2] = 250;
    assert!(formerr(&tail(&other)), "a signature");
    assert!(
        formerr(&tail(&opt(0, &[0, 10, 0, 3, 1, 2]))),
        "an option that is too long"
    );
    assert!(formerr(&tail(&opt(0, &[0]))), "half an option");
}

#[test]
fn every_answer_fits_into_what_every_resolver_takes() {
    let label = [b'a'; 63];
    let name: [&[u8]; 4] = [&label, &label, &label, &label[..61]];
    let message = query(&name, A, [1, 0, 0, 1], &opt(0, &[]));
    let query = read(&message).unwrap();
    let why = "w".repeat(4096);
    for (code, record) in [
        (Code::NxDomain, Record::None),
        (Code::NoError, Record::Address([198, 18, 0, 1].into(), 60)),
    ] {
        assert!(query.answer(code, record, Some((15, &why))).len() <= 512);
    }
    let reverse: [&[u8]; 6] = [b"254", b"255", b"19", b"198", b"in-addr", b"arpa"];
    let message = self::query(&reverse, PTR, [1, 0, 0, 1], &opt(0, &[]));
    let longest = read(&message).unwrap().answer(
        Code::NoError,
        Record::Pointer(&"a".repeat(63), 60),
        Some((15, &why)),
    );
    assert!(longest.len() + 253 - 63 <= 512);
}

#[test]
fn a_pointer_is_written_as_a_name() {
    let reverse: [&[u8]; 6] = [b"1", b"0", b"18", b"198", b"in-addr", b"arpa"];
    let message = query(&reverse, PTR, [1, 0, 0, 0], &[]);
    let answer = read(&message)
        .unwrap()
        .answer(Code::NoError, Record::Pointer("a.test", 60), None);
    assert!(answer.ends_with(&[0, 8, 1, b'a', 4, b't', b'e', b's', b't', 0]));
}
