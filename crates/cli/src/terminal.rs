//! The host's terminal while a command inside has one of its own.

use std::io;

use namzu_sandbox::client::PtySize;
use rustix::termios::{OptionalActions, Termios, tcgetattr, tcgetwinsize, tcsetattr};

/// Size when the terminal does not know its own.
const FALLBACK: PtySize = PtySize { cols: 80, rows: 24 };

/// The terminal of standard input in raw mode: every key goes inside, Ctrl-C too. Given back as it
/// was on drop, whatever ends the program's work.
#[derive(Debug)]
pub(crate) struct Raw {
    before: Option<Termios>,
}

impl Raw {
    /// Enters raw mode; does nothing where standard input is no terminal.
    pub(crate) fn enter() -> io::Result<Self> {
        let stdin = rustix::stdio::stdin();
        let Ok(before) = tcgetattr(stdin) else {
            return Ok(Self { before: None });
        };
        let mut raw = before.clone();
        raw.make_raw();
        // What was typed already is meant for the inside.
        tcsetattr(stdin, OptionalActions::Drain, &raw)?;
        Ok(Self {
            before: Some(before),
        })
    }
}

impl Drop for Raw {
    fn drop(&mut self) {
        if let Some(before) = &self.before {
            // Keys that were meant for the inside must not reach the host's shell.
            let _ = tcsetattr(rustix::stdio::stdin(), OptionalActions::Flush, before);
        }
    }
}

/// The size of the terminal on standard output, or else on standard input.
pub(crate) fn size() -> PtySize {
    let size = tcgetwinsize(rustix::stdio::stdout())
        .or_else(|_| tcgetwinsize(rustix::stdio::stdin()))
        .ok();
    match size {
        Some(size) if size.ws_col > 0 && size.ws_row > 0 => PtySize {
            cols: size.ws_col,
            rows: size.ws_row,
        },
        _ => FALLBACK,
    }
}
