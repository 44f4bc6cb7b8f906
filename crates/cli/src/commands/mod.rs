//! One file a verb. A verb gets settings and a [`Context`](crate::context::Context), and gives back the exit code.

pub(crate) mod backends;
pub(crate) mod completions;
pub(crate) mod cp;
pub(crate) mod doctor;
pub(crate) mod egress;
pub(crate) mod exec;
pub(crate) mod ls;
pub(crate) mod plan;
pub(crate) mod policy;
pub(crate) mod rm;
pub(crate) mod run;
pub(crate) mod shell;
