//! One strict reading of a response's head: a server outside may be as hostile as a program inside.

use std::mem::MaybeUninit;

use bytes::Bytes;
use http::{HeaderMap, Method, StatusCode};

use super::fields::{Fields, Framing};
use super::scan::FIELDS_MAX;
use crate::Reason;

/// The head of a response.
#[derive(Debug)]
pub(crate) struct ResponseHead {
    pub(crate) status: StatusCode,
    /// What goes on to the inside.
    pub(crate) headers: HeaderMap,
    pub(crate) framing: Framing,
    /// The length that was named, which a response without a body may do too.
    pub(crate) length: Option<u64>,
    /// The server takes another request.
    pub(crate) keep_alive: bool,
    /// It goes on in the protocol of WebSocket.
    pub(crate) websocket: bool,
}

impl ResponseHead {
    /// Reads a whole head of a response to `method`.
    ///
    /// # Errors
    ///
    /// [`Reason::UpstreamBroken`].
    pub(crate) fn parse(head: &Bytes, method: &Method) -> Result<Self, Reason> {
        let mut fields = [const { MaybeUninit::uninit() }; FIELDS_MAX];
        let mut parsed = httparse::Response::new(&mut []);
        let config = httparse::ParserConfig::default();
        match config.parse_response_with_uninit_headers(&mut parsed, head, &mut fields) {
            Ok(httparse::Status::Complete(length)) if length == head.len() => {}
            _ => return Err(Reason::UpstreamBroken),
        }
        let (Some(code), Some(minor)) = (parsed.code, parsed.version) else {
            return Err(Reason::UpstreamBroken);
        };
        let status = StatusCode::from_u16(code).map_err(|_| Reason::UpstreamBroken)?;
        if code >= 600 {
            return Err(Reason::UpstreamBroken);
        }
        let fields = Fields::read(head, parsed.headers).map_err(|_| Reason::UpstreamBroken)?;
        if fields.chunked && minor == 0 {
            return Err(Reason::UpstreamBroken);
        }
        let bare = status.is_informational()
            || matches!(status, StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED)
            || method == Method::HEAD;
        let framing = match (bare, fields.chunked, fields.length) {
            (true, ..) => Framing::None,
            (false, true, _) => Framing::Chunked,
            (false, false, Some(length)) => Framing::Length(length),
            (false, false, None) => Framing::UntilClose,
        };
        let websocket = fields
            .upgrade
            .as_ref()
            .is_some_and(|to| to.as_bytes().eq_ignore_ascii_case(b"websocket"));
        Ok(Self {
            status,
            framing,
            length: fields.length,
            keep_alive: !fields.close
                && framing != Framing::UntilClose
                && (minor == 1 || fields.keep_alive),
            headers: fields.map,
            websocket,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(head: &'static str, method: &Method) -> Result<ResponseHead, Reason> {
        ResponseHead::parse(&Bytes::from_static(head.as_bytes()), method)
    }

    fn framing(head: &'static str) -> Framing {
        read(head, &Method::GET).unwrap().framing
    }

    #[test]
    fn a_body_is_as_long_as_the_head_says_and_else_until_the_end() {
        assert_eq!(
            framing("HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\n"),
            Framing::Length(5)
        );
        assert_eq!(
            framing("HTTP/1.1 200 OK\r\ntransfer-encoding: Chunked\r\n\r\n"),
            Framing::Chunked
        );
        assert_eq!(framing("HTTP/1.1 200 OK\r\n\r\n"), Framing::UntilClose);
        assert_eq!(
            framing("HTTP/1.1 200\r\ncontent-length: 0\r\n\r\n"),
            Framing::Length(0)
        );
    }

    #[test]
    fn no_body_follows_204_304_1xx_and_the_answer_to_head() {
        for head in [
            "HTTP/1.1 204 No\r\ncontent-length: 5\r\n\r\n",
            "HTTP/1.1 304 No\r\ntransfer-encoding: chunked\r\n\r\n",
            "HTTP/1.1 103 Early\r\n\r\n",
        ] {
            assert_eq!(framing(head), Framing::None, "{head}");
        }
        let head = read(
            "HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\n",
            &Method::HEAD,
        )
        .unwrap();
        assert_eq!((head.framing, head.length), (Framing::None, Some(5)));
    }

    #[test]
    fn an_ambiguous_or_broken_head_is_refused() {
        for head in [
            "HTTP/1.1 200 OK\r\ncontent-length: 5\r\ncontent-length: 5\r\n\r\n",
            "HTTP/1.1 200 OK\r\ncontent-length: 5, 5\r\n\r\n",
            "HTTP/1.1 200 OK\r\ncontent-length: 5\r\ntransfer-encoding: chunked\r\n\r\n",
            "HTTP/1.1 200 OK\r\ntransfer-encoding: gzip, chunked\r\n\r\n",
            "HTTP/1.0 200 OK\r\ntransfer-encoding: chunked\r\n\r\n",
            "HTTP/1.1 200 OK\r\ncontent-length : 5\r\n\r\n",
            "HTTP/1.1 200 OK\r\na: b\r\n c\r\n\r\n",
            "HTTP/1.1 999 OK\r\n\r\n",
            "HTTP/1.1 099 OK\r\n\r\n",
            "HTTP/1.1 20 OK\r\n\r\n",
            "HTTP/2.0 200 OK\r\n\r\n",
        ] {
            assert_eq!(
                read(head, &Method::GET).err(),
                Some(Reason::UpstreamBroken),
                "{head}"
            );
        }
    }

    #[test]
    fn a_server_that_closes_is_not_asked_again() {
        let keeps = |head| read(head, &Method::GET).unwrap().keep_alive;
        assert!(keeps("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n"));
        assert!(keeps(
            "HTTP/1.0 200 OK\r\nconnection: keep-alive\r\ncontent-length: 0\r\n\r\n"
        ));
        assert!(!keeps("HTTP/1.0 200 OK\r\ncontent-length: 0\r\n\r\n"));
        assert!(!keeps(
            "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"
        ));
        assert!(!keeps("HTTP/1.1 200 OK\r\n\r\n"));
    }

    #[test]
    fn what_concerns_one_hop_does_not_reach_the_inside() {
        let head = read(
            "HTTP/1.1 200 OK\r\nproxy-authenticate: x\r\nconnection: x-a\r\nx-a: 1\r\nx-b: 2\r\n\r\n",
            &Method::GET,
        );
        let names: Vec<_> = head
            .unwrap()
            .headers
            .keys()
            .map(ToString::to_string)
            .collect();
        assert_eq!(names, ["x-b"]);
    }
}
