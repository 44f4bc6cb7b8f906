//! A file's mode in words, as Go writes it: `-rw-r--r--`, `drwxr-xr-x`, `Lrwxrwxrwx`.

/// Writes `st_mode`, type bits included.
///
/// Go's order of the leading letters is d L D p S u g c t; a file with none of them gets `-`.
#[must_use]
pub fn format(mode: u32) -> String {
    let mut text = String::with_capacity(11);
    let kind = mode & 0o170_000;
    let letters = [
        ('d', kind == 0o040_000),
        ('L', kind == 0o120_000),
        ('D', kind == 0o060_000 || kind == 0o020_000),
        ('p', kind == 0o010_000),
        ('S', kind == 0o140_000),
        ('u', mode & 0o4000 != 0),
        ('g', mode & 0o2000 != 0),
        ('c', kind == 0o020_000),
        ('t', mode & 0o1000 != 0),
    ];
    text.extend(letters.iter().filter(|(_, set)| *set).map(|(c, _)| *c));
    if text.is_empty() {
        text.push('-');
    }
    for (shift, letter) in (0..9).rev().zip("rwxrwxrwx".chars()) {
        text.push(if mode >> shift & 1 == 1 { letter } else { '-' });
    }
    text
}

#[cfg(test)]
mod tests {
    use super::format;

    #[test]
    fn modes_read_as_go_writes_them() {
        for (mode, text) in [
            (0o100_644, "-rw-r--r--"),
            (0o040_755, "drwxr-xr-x"),
            (0o120_777, "Lrwxrwxrwx"),
            (0o104_755, "urwxr-xr-x"),
            (0o041_777, "dtrwxrwxrwx"),
            (0o020_666, "Dcrw-rw-rw-"),
            (0o060_660, "Drw-rw----"),
            (0o010_600, "prw-------"),
            (0o140_755, "Srwxr-xr-x"),
            (0o102_711, "grwx--x--x"),
        ] {
            assert_eq!(format(mode), text);
        }
    }
}
