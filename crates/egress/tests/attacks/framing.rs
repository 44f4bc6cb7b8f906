//! 58 to 77, 104 and 105: where a request ends.

mod bodies;

use crate::bench::{List, Place};
use crate::doors::{Door, Outcome, answered};
use crate::wire::Wire;

/// Where requests in HTTP/1.1 are read.
const WAYS: &[Door] = &[Door::Absolute, Door::Named, Door::Intercepted];

/// Opens a way, and says how a request is written there: its target's beginning, and its host.
pub(crate) fn open(place: &Place, door: Door) -> (Wire, &'static str, &'static str) {
    match door {
        Door::Named => (place.named("allowed.test", 80), "", "allowed.test"),
        Door::Intercepted => (place.intercepted("inner.test"), "", "inner.test"),
        _ => (place.proxy(), "http://allowed.test", "allowed.test"),
    }
}

/// Writes `{T}` and `{H}` out.
fn written(request: &[u8], target: &str, host: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut rest = request;
    while let Some(first) = rest.first() {
        if let Some(after) = rest.strip_prefix(b"{T}") {
            bytes.extend(target.bytes());
            rest = after;
        } else if let Some(after) = rest.strip_prefix(b"{H}") {
            bytes.extend(host.bytes());
            rest = after;
        } else {
            bytes.push(*first);
            rest = &rest[1..];
        }
    }
    bytes
}

/// What comes after a body that two readers see the end of in two places.
const TAIL: &str = "GET {T}/smuggled HTTP/1.1\r\nHost: {H}\r\n\r\n";

pub(crate) fn list(list: &mut List) {
    lengths(list);
    heads(list);
    first_lines(list);
    for (name, request) in [
        (
            "058_length_and_chunks",
            "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        ),
        (
            "058_chunks_and_length",
            "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n",
        ),
        (
            "062_chunks_that_are_not_last",
            "Transfer-Encoding: chunked, gzip\r\n\r\n0\r\n\r\n",
        ),
        (
            "062_chunks_twice",
            "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        ),
        (
            "062_chunks_twice_in_a_list",
            "Transfer-Encoding: chunked, chunked\r\n\r\n0\r\n\r\n",
        ),
        (
            "062_chunks_and_identity",
            "Transfer-Encoding: identity, chunked\r\n\r\n0\r\n\r\n",
        ),
        (
            "062_not_quite_chunked",
            "Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
        ),
        (
            "062_chunked_with_a_tab",
            "Transfer-Encoding:\tchunked\x0b\r\n\r\n0\r\n\r\n",
        ),
        (
            "062_chunked_in_quotes",
            "Transfer-Encoding: \"chunked\"\r\n\r\n0\r\n\r\n",
        ),
        (
            "062_empty_encoding",
            "Transfer-Encoding:\r\nContent-Length: 5\r\n\r\nhello",
        ),
        (
            "063_a_space_before_the_colon",
            "Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n",
        ),
        (
            "063_a_tab_before_the_colon",
            "Content-Length\t: 5\r\n\r\nhello",
        ),
    ] {
        refused(
            list,
            name,
            &format!("POST {{T}}/ HTTP/1.1\r\nHost: {{H}}\r\n{request}{TAIL}"),
        );
    }
    refused(
        list,
        "064_chunks_in_http_1_0",
        &format!(
            "POST {{T}}/ HTTP/1.0\r\nHost: {{H}}\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n{TAIL}"
        ),
    );
    bodies::list(list);
}

fn lengths(list: &mut List) {
    for (name, lengths) in [
        (
            "059_two_lengths",
            "Content-Length: 5\r\nContent-Length: 6\r\n",
        ),
        (
            "059_two_lengths_alike",
            "Content-Length: 5\r\nContent-Length: 5\r\n",
        ),
        ("060_a_list_of_lengths", "Content-Length: 5, 5\r\n"),
        ("060_a_list_of_other_lengths", "Content-Length: 5, 6\r\n"),
        ("061_a_sign", "Content-Length: +5\r\n"),
        ("061_a_negative_length", "Content-Length: -1\r\n"),
        ("061_hexadecimal", "Content-Length: 0x5\r\n"),
        ("061_a_fraction", "Content-Length: 5.0\r\n"),
        ("061_a_space_inside", "Content-Length: 1 0\r\n"),
        ("061_no_digits", "Content-Length:\r\n"),
        ("061_letters", "Content-Length: 5a\r\n"),
        (
            "061_beyond_64_bits",
            "Content-Length: 18446744073709551621\r\n",
        ),
        ("061_an_underscore", "Content-Length: 1_0\r\n"),
    ] {
        refused(
            list,
            name,
            &format!("POST {{T}}/ HTTP/1.1\r\nHost: {{H}}\r\n{lengths}\r\nhello{TAIL}"),
        );
    }
}

fn heads(list: &mut List) {
    for (name, head) in [
        ("065_a_folded_line", "Host: {H}\r\nX-A: b\r\n c\r\n\r\n"),
        (
            "065_a_folded_length",
            "Host: {H}\r\nX-A: b\r\n\tContent-Length: 5\r\n\r\n",
        ),
        (
            "065_a_first_line_that_is_folded",
            " Host: evil.test\r\nHost: {H}\r\n\r\n",
        ),
        ("066_bare_lf", "Host: {H}\nX-A: b\n\n"),
        ("066_one_bare_lf", "Host: {H}\r\nX-A: b\nX-B: c\r\n\r\n"),
        ("066_a_bare_lf_at_the_end", "Host: {H}\r\nX-A: b\r\n\n"),
        (
            "067_a_bare_cr_in_a_value",
            "Host: {H}\r\nX-A: b\rX-B: c\r\n\r\n",
        ),
        ("067_a_bare_cr_in_a_name", "Host: {H}\r\nX-\rA: b\r\n\r\n"),
        ("067_two_crs", "Host: {H}\r\r\nX-A: b\r\n\r\n"),
        ("068_a_nul_in_a_value", "Host: {H}\r\nX-A: b\0c\r\n\r\n"),
        ("068_a_nul_in_the_host", "Host: {H}\0\r\n\r\n"),
        ("068_a_control_character", "Host: {H}\r\nX-A: \x01\r\n\r\n"),
        ("069_a_name_with_a_space", "Host: {H}\r\nX A: b\r\n\r\n"),
        ("069_an_empty_name", "Host: {H}\r\n: b\r\n\r\n"),
        ("069_no_colon", "Host: {H}\r\nX-A\r\n\r\n"),
        ("069_a_name_in_parentheses", "Host: {H}\r\nX(A): b\r\n\r\n"),
        ("071_two_hosts", "Host: {H}\r\nHost: evil.test\r\n\r\n"),
        (
            "071_two_hosts_the_other_way",
            "Host: evil.test\r\nHost: {H}\r\n\r\n",
        ),
        ("071_two_hosts_alike", "Host: {H}\r\nHost: {H}\r\n\r\n"),
        ("071_a_list_of_hosts", "Host: {H}, evil.test\r\n\r\n"),
        ("071_no_host", "X-A: b\r\n\r\n"),
        ("071_an_empty_host", "Host:\r\n\r\n"),
        ("071_a_space_before_the_colon", "Host : {H}\r\n\r\n"),
    ] {
        refused(list, name, &format!("GET {{T}}/ HTTP/1.1\r\n{head}"));
    }
}

fn first_lines(list: &mut List) {
    for (name, line) in [
        ("072_http_0_9", "GET {T}/\r\n"),
        ("072_http_2_0", "GET {T}/ HTTP/2.0\r\n"),
        ("072_http_1_2", "GET {T}/ HTTP/1.2\r\n"),
        ("072_http_in_lower_case", "GET {T}/ http/1.1\r\n"),
        ("072_no_version", "GET {T}/ \r\n"),
        ("072_two_spaces", "GET  {T}/ HTTP/1.1\r\n"),
        ("072_a_tab", "GET\t{T}/ HTTP/1.1\r\n"),
        ("072_a_space_in_the_target", "GET {T}/a b HTTP/1.1\r\n"),
        ("072_a_space_at_the_end", "GET {T}/ HTTP/1.1 \r\n"),
        ("072_a_nul_in_the_target", "GET {T}/a\0b HTTP/1.1\r\n"),
        ("072_a_bare_cr", "GET {T}/ HTTP/1.1\rX: y\r\n"),
        ("072_a_method_that_is_none", "G(T {T}/ HTTP/1.1\r\n"),
    ] {
        refused(list, name, &format!("{line}Host: {{H}}\r\n\r\n"));
    }
    list.add("075_the_preface_of_http_2::absolute", |bench| {
        let place = Place::open(bench);
        let mut wire = place.proxy();
        wire.send("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
        assert!(answered(&mut wire).is_refused());
        wire.ended();
        place.silent();
    });
    list.add("075_the_preface_of_http_2::named", |bench| {
        let place = Place::open(bench);
        let mut wire = place.named("allowed.test", 80);
        wire.send("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
        assert!(answered(&mut wire).is_refused());
        wire.ended();
        place.silent();
    });
}

/// Refused with 400 and nothing after it, on every way.
fn refused(list: &mut List, name: &str, request: &str) {
    for door in WAYS {
        let request = request.to_owned();
        list.add(format!("{name}::{}", door.name()), move |bench| {
            let place = Place::open(bench);
            let (mut wire, target, host) = open(&place, *door);
            wire.send(written(request.as_bytes(), target, host));
            let outcome = answered(&mut wire);
            match &outcome {
                Outcome::Http(reply) => assert_eq!(reply.status, 400, "{}", reply.head),
                // On a named door nothing may be told of what is not HTTP at all.
                Outcome::Ended(_) => {}
                _ => panic!("{outcome:?}"),
            }
            wire.ended();
            place.unreached();
        });
    }
}
