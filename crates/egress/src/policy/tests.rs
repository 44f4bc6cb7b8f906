mod attacks;
mod credentials;
mod load;
mod model;
mod verdicts;
