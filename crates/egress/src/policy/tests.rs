//! Policies: what is refused of them, and what they decide.

mod attacks;
mod credentials;
mod load;
mod model;
mod verdicts;
