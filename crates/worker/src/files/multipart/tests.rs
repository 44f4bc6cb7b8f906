//! Bodies cut at every place, hostile headers, and bombs.

use super::*;

const TYPE: &[u8] = b"multipart/form-data; boundary=XyZ";

#[derive(Debug, Default, PartialEq)]
struct Part {
    head: Head,
    data: Vec<u8>,
    complete: bool,
}

fn parse(body: &[u8], cut: usize) -> Outcome<Vec<Part>> {
    let mut parser = Multipart::new(TYPE)?;
    let mut parts: Vec<Part> = Vec::new();
    for piece in body.chunks(cut.max(1)) {
        parser.push(piece, &mut |event| {
            match event {
                Event::Part(head) => parts.push(Part {
                    head,
                    ..Part::default()
                }),
                Event::Data(data) => parts.last_mut().unwrap().data.extend_from_slice(data),
                Event::End => parts.last_mut().unwrap().complete = true,
            }
            Ok(())
        })?;
    }
    parser.finish()?;
    Ok(parts)
}

fn body(parts: &[(&str, &[u8])]) -> Vec<u8> {
    let mut body = Vec::new();
    for (name, data) in parts {
        let head = format!(
            "--XyZ\r\nContent-Disposition: form-data; name=\"file\"; filename=\"{name}\"\r\n\r\n"
        );
        body.extend_from_slice(head.as_bytes());
        body.extend_from_slice(data);
        body.extend_from_slice(b"\r\n");
    }
    body.extend_from_slice(b"--XyZ--\r\n");
    body
}

#[test]
fn parts_come_out_the_same_wherever_the_body_is_cut() {
    let tricky: &[u8] = b"\r\n--Xy\r\n--\r\r\n-\r\n--XyY\r\n\r\n--Xy";
    let body = body(&[
        ("/a", b"one"),
        ("/b", b""),
        ("/c", tricky),
        ("/d", b"\r\n"),
        ("/e", b"-"),
    ]);
    let whole = parse(&body, body.len()).unwrap();
    let data: Vec<&[u8]> = whole.iter().map(|part| &part.data[..]).collect();
    assert_eq!(data, [b"one", &b""[..], tricky, b"\r\n", b"-"]);
    assert!(whole.iter().all(|part| part.complete));
    for cut in 1..body.len() {
        assert_eq!(parse(&body, cut).unwrap(), whole, "cut every {cut} bytes");
    }
}

#[test]
fn a_part_without_headers_or_body_is_a_part() {
    let parts = parse(b"--XyZ\r\n\r\n--XyZ--", 3);
    // The blank line ends the (absent) headers, and at once begins the boundary.
    assert_eq!(
        parts.unwrap(),
        [Part {
            complete: true,
            ..Part::default()
        }]
    );
}

#[test]
fn a_preamble_and_an_epilogue_are_ignored() {
    let mut text = b"ignored --XyZ\r\n".to_vec();
    text.extend(body(&[("/a", b"x")]));
    text.extend(b"epilogue --XyZ\r\n");
    assert_eq!(parse(&text, 7).unwrap().len(), 1);
}

#[test]
fn file_names_are_bytes_and_may_be_quoted() {
    let head = b"Content-Type: x\r\nContent-Disposition: form-data; name=\"file\"; filename=\"/a \\\"b\\\\c;d=\xff\"\r\n\r\n";
    assert_eq!(parse_head(head).filename.unwrap(), b"/a \"b\\c;d=\xff");
    let head = b"content-disposition:form-data; filename*=UTF-8''%2Fa%20b; filename=x\r\n\r\n";
    assert_eq!(parse_head(head).filename.unwrap(), b"/a b");
    let head = b"content-disposition: form-data; name=file\r\n\r\n";
    assert_eq!(
        parse_head(head),
        Head {
            name: Some(b"file".to_vec()),
            filename: None
        }
    );
}

#[test]
fn a_body_that_stops_early_is_refused() {
    let body = body(&[("/a", b"one")]);
    for end in 0..body.len() - 2 {
        assert!(parse(&body[..end], 5).is_err(), "{end}");
    }
}

#[test]
fn endless_headers_and_endless_parts_are_refused() {
    let mut long = b"--XyZ\r\n".to_vec();
    long.resize(MAX_HEAD * 2, b'h');
    assert_eq!(parse(&long, 4096).unwrap_err().kind, Kind::TooMuch);
    let many = b"--XyZ\r\n\r\n\r\n".repeat(MAX_PARTS + 1);
    assert_eq!(parse(&many, 4096).unwrap_err().kind, Kind::TooMuch);
    let mut line = b"--XyZ".to_vec();
    line.resize(4096, b' ');
    assert!(parse(&line, 4096).is_err());
}

#[test]
fn a_malformed_boundary_is_refused() {
    let long = format!("multipart/form-data; boundary={}", "b".repeat(71));
    for kind in [
        "multipart/form-data",
        "multipart/form-data; boundary=",
        &long,
        "x; boundary=\"a\u{1}\"",
    ] {
        assert!(Multipart::new(kind.as_bytes()).is_err(), "{kind}");
    }
}

/// Deterministic noise around the delimiter's own bytes never panics and never invents data.
#[test]
fn noise_never_panics() {
    let mut seed = 0x9e37_79b9_7f4a_7c15_u64;
    for round in 0..2000 {
        let mut text = Vec::new();
        for _ in 0..round % 200 {
            seed = seed
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            text.push(b"\r\n-XyZ:;=\"\\ a"[usize::try_from(seed >> 60).unwrap() % 13]);
        }
        let whole = parse(&text, text.len()).ok();
        assert_eq!(parse(&text, 1).ok(), whole);
    }
}
