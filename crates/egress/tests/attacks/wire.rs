//! A raw connection: what is sent is what a test wrote, byte for byte.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

/// A connection, in the clear or in TLS.
pub(crate) struct Wire {
    stream: Stream,
    /// Read, and not yet looked at.
    buffer: Vec<u8>,
}

enum Stream {
    Clear(TcpStream),
    Tls(Box<StreamOwned<ClientConnection, TcpStream>>),
}

/// An answer in HTTP/1.1.
#[derive(Clone, Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: String,
}

/// How a connection ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// In an orderly way.
    Closed,
    /// With a reset, or in the middle of TLS.
    Reset,
    /// It did not.
    Open,
}

impl Reply {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().skip(1).find_map(|line| {
            let (field, value) = line.split_once(':')?;
            field.eq_ignore_ascii_case(name).then(|| value.trim())
        })
    }

    /// The boundary's own reason, if it is its own answer.
    pub(crate) fn reason(&self) -> &str {
        self.header("x-egress-reason").unwrap_or_default()
    }
}

impl Wire {
    pub(crate) fn new(stream: TcpStream) -> Self {
        Self {
            stream: Stream::Clear(stream),
            buffer: Vec::new(),
        }
    }

    pub(crate) fn socket(&self) -> &TcpStream {
        match &self.stream {
            Stream::Clear(stream) => stream,
            Stream::Tls(stream) => stream.get_ref(),
        }
    }

    /// The socket itself, for another library to speak on.
    pub(crate) fn into_socket(self) -> TcpStream {
        match self.stream {
            Stream::Clear(stream) => stream,
            Stream::Tls(stream) => stream.into_parts().1,
        }
    }

    /// Speaks TLS from now on, and finishes the handshake.
    pub(crate) fn tls(self, trust: &RootCertStore, name: &str, alpn: &[&str]) -> io::Result<Self> {
        let name = ServerName::try_from(name.to_owned()).map_err(io::Error::other)?;
        self.hello(trust, name, alpn, true)
    }

    /// The same without telling a name.
    pub(crate) fn tls_without_name(self, trust: &RootCertStore, name: &str) -> io::Result<Self> {
        let name = ServerName::try_from(name.to_owned()).map_err(io::Error::other)?;
        self.hello(trust, name, &["http/1.1"], false)
    }

    fn hello(
        self,
        trust: &RootCertStore,
        name: ServerName<'static>,
        alpn: &[&str],
        tell: bool,
    ) -> io::Result<Self> {
        let Stream::Clear(mut socket) = self.stream else {
            return Err(io::Error::other("TLS in TLS"));
        };
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(io::Error::other)?
            .with_root_certificates(trust.clone())
            .with_no_client_auth();
        config.enable_sni = tell;
        config.alpn_protocols = alpn.iter().map(|name| name.as_bytes().to_vec()).collect();
        let mut tls = ClientConnection::new(Arc::new(config), name).map_err(io::Error::other)?;
        while tls.is_handshaking() {
            tls.complete_io(&mut socket)?;
        }
        Ok(Self {
            stream: Stream::Tls(Box::new(StreamOwned::new(tls, socket))),
            buffer: Vec::new(),
        })
    }

    /// Sends; that the other side has ended the connection already is found when reading.
    pub(crate) fn send(&mut self, bytes: impl AsRef<[u8]>) {
        let stream: &mut dyn Write = match &mut self.stream {
            Stream::Clear(stream) => stream,
            Stream::Tls(stream) => stream,
        };
        let _ = stream
            .write_all(bytes.as_ref())
            .and_then(|()| stream.flush());
    }

    /// Ends this direction.
    pub(crate) fn finish(&mut self) {
        if let Stream::Tls(stream) = &mut self.stream {
            stream.conn.send_close_notify();
            let _ = stream.flush();
        }
        let _ = self.socket().shutdown(Shutdown::Write);
    }

    fn fill(&mut self) -> io::Result<usize> {
        let mut bytes = [0; 16 * 1024];
        let stream: &mut dyn Read = match &mut self.stream {
            Stream::Clear(stream) => stream,
            Stream::Tls(stream) => stream,
        };
        let read = loop {
            match stream.read(&mut bytes) {
                // A socket with a timeout is not restarted after a signal.
                Err(err) if err.kind() == io::ErrorKind::Interrupted => {}
                read => break read?,
            }
        };
        self.buffer.extend_from_slice(&bytes[..read]);
        Ok(read)
    }

    /// Reads `length` bytes.
    pub(crate) fn exactly(&mut self, length: usize) -> io::Result<Vec<u8>> {
        while self.buffer.len() < length {
            if self.fill()? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
        Ok(self.buffer.drain(..length).collect())
    }

    /// Reads up to and with `end`.
    pub(crate) fn until(&mut self, end: &[u8]) -> io::Result<Vec<u8>> {
        loop {
            let found = self.buffer.windows(end.len()).position(|at| at == end);
            if let Some(at) = found {
                return Ok(self.buffer.drain(..at + end.len()).collect());
            }
            if self.fill()? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
    }

    /// Reads an answer, other than to HEAD.
    pub(crate) fn reply(&mut self) -> io::Result<Reply> {
        let mut reply = self.head()?;
        if matches!(reply.status, 100..=199 | 204 | 304) {
            return Ok(reply);
        }
        let length = reply.header("content-length").map(str::to_owned);
        let chunked = reply.header("transfer-encoding").is_some();
        let body = match length {
            _ if chunked => self.chunks()?,
            Some(length) => self.exactly(length.parse().map_err(io::Error::other)?)?,
            None => self.rest(Duration::from_secs(30)).0,
        };
        reply.body = String::from_utf8_lossy(&body).into_owned();
        Ok(reply)
    }

    /// Reads the head of an answer, e.g. to CONNECT.
    pub(crate) fn head(&mut self) -> io::Result<Reply> {
        let head = self.until(b"\r\n\r\n")?;
        let head = String::from_utf8_lossy(&head).into_owned();
        let status = head
            .strip_prefix("HTTP/1.1 ")
            .and_then(|rest| rest.get(..3))
            .and_then(|code| code.parse().ok())
            .ok_or_else(|| io::Error::other(format!("no answer: {head}")))?;
        Ok(Reply {
            status,
            head,
            body: String::new(),
        })
    }

    fn chunks(&mut self) -> io::Result<Vec<u8>> {
        let mut body = Vec::new();
        loop {
            let line = String::from_utf8(self.until(b"\r\n")?).map_err(io::Error::other)?;
            let length = usize::from_str_radix(line.trim(), 16).map_err(io::Error::other)?;
            if length == 0 {
                while self.until(b"\r\n")? != b"\r\n" {}
                return Ok(body);
            }
            body.extend(self.exactly(length)?);
            self.exactly(2)?;
        }
    }

    /// Reads on until it ends, or nothing comes for as long as `patience` lasts.
    pub(crate) fn rest(&mut self, patience: Duration) -> (Vec<u8>, End) {
        let before = self.socket().read_timeout().ok().flatten();
        let _ = self.socket().set_read_timeout(Some(patience));
        let end = loop {
            match self.fill() {
                Ok(0) => break End::Closed,
                Ok(_) => {}
                Err(err) => match err.kind() {
                    io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => break End::Open,
                    _ => break End::Reset,
                },
            }
        };
        let _ = self.socket().set_read_timeout(before);
        (std::mem::take(&mut self.buffer), end)
    }

    /// Reads the end: whatever it is, it is there, and nothing comes before it.
    pub(crate) fn ended(&mut self) {
        let (bytes, end) = self.rest(Duration::from_secs(30));
        let text = String::from_utf8_lossy(&bytes);
        assert_eq!(text, "", "more than one answer");
        assert_ne!(end, End::Open, "the connection was left open");
    }
}
