//! Writes tar streams by hand, so that they can be as wrong as an attacker's.

/// A tar stream in the making.
#[derive(Debug, Default)]
pub(crate) struct Archive(Vec<u8>);

/// One entry, however hostile.
#[derive(Debug)]
pub(crate) struct Entry {
    name: String,
    kind: u8,
    link: String,
    mode: u32,
    body: Vec<u8>,
    claims: Option<u64>,
}

impl Entry {
    fn new(name: &str, kind: u8) -> Self {
        Self {
            name: name.to_owned(),
            kind,
            link: String::new(),
            mode: 0o644,
            body: Vec::new(),
            claims: None,
        }
    }

    pub(crate) fn file(name: &str, body: &[u8]) -> Self {
        Self {
            body: body.to_vec(),
            ..Self::new(name, b'0')
        }
    }

    pub(crate) fn directory(name: &str) -> Self {
        Self::new(&format!("{name}/"), b'5').mode(0o755)
    }

    pub(crate) fn symlink(name: &str, target: &str) -> Self {
        Self {
            link: target.to_owned(),
            ..Self::new(name, b'2')
        }
    }

    pub(crate) fn hard_link(name: &str, target: &str) -> Self {
        Self {
            link: target.to_owned(),
            ..Self::new(name, b'1')
        }
    }

    /// The host's first disk, or its memory.
    pub(crate) fn device(name: &str, block: bool) -> Self {
        Self::new(name, if block { b'4' } else { b'3' })
    }

    pub(crate) fn mode(self, mode: u32) -> Self {
        Self { mode, ..self }
    }

    /// Announces another size than its body has.
    pub(crate) fn claiming(self, size: u64) -> Self {
        Self {
            claims: Some(size),
            ..self
        }
    }
}

impl Archive {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    /// Appends an entry in the ustar form.
    pub(crate) fn with(mut self, entry: impl Into<Entry>) -> Self {
        let entry = entry.into();
        let mut header = [0_u8; 512];
        put(&mut header, 0, 100, entry.name.as_bytes());
        put(&mut header, 100, 8, octal(entry.mode.into(), 7).as_bytes());
        put(&mut header, 108, 8, octal(0, 7).as_bytes());
        put(&mut header, 116, 8, octal(0, 7).as_bytes());
        let size = entry.claims.unwrap_or(entry.body.len() as u64);
        put(&mut header, 124, 12, octal(size, 11).as_bytes());
        put(&mut header, 136, 12, octal(1_700_000_000, 11).as_bytes());
        header[148..156].fill(b' ');
        header[156] = entry.kind;
        put(&mut header, 157, 100, entry.link.as_bytes());
        put(&mut header, 257, 8, b"ustar\x0000");
        // Major and minor 1: memory as a character device.
        put(&mut header, 329, 8, octal(1, 7).as_bytes());
        put(&mut header, 337, 8, octal(1, 7).as_bytes());
        let sum: u64 = header.iter().copied().map(u64::from).sum();
        put(&mut header, 148, 8, octal(sum, 6).as_bytes());
        header[154] = 0;
        self.0.extend_from_slice(&header);
        self.0.extend_from_slice(&entry.body);
        let padded = self.0.len().next_multiple_of(512);
        self.0.resize(padded, 0);
        self
    }

    /// Appends the end and gives back the bytes.
    pub(crate) fn finish(mut self) -> Vec<u8> {
        self.0.extend_from_slice(&[0; 1024]);
        self.0
    }
}

fn octal(value: u64, digits: usize) -> String {
    format!("{value:0digits$o}")
}

fn put(header: &mut [u8; 512], at: usize, len: usize, bytes: &[u8]) {
    let count = bytes.len().min(len);
    header[at..at + count].copy_from_slice(&bytes[..count]);
}
