//! A fault of the worker's own ends it at once, and a fault that is only claimed does nothing.
#![expect(
    unsafe_code,
    reason = "neither the standard library nor rustix resets a signal's action"
)]

/// Takes back the handlers that the standard library installs to explain a stack overflow.
///
/// The kernel keeps from a first process every signal of its own sandbox whose action is the
/// default one. Two handlers on one small alternate stack are a way round that: a command that
/// sends both signals at once makes the kernel run out of stack, which it answers with a fault that
/// no first process survives.
pub(crate) fn take_the_default_action() {
    for fault in [libc::SIGSEGV, libc::SIGBUS] {
        // SAFETY: the default action runs no code of ours, so there is no handler to be sound.
        // It cannot fail for a signal that has a default action.
        unsafe { libc::signal(fault, libc::SIG_DFL) };
    }
}
