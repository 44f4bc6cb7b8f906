//! What is left when the host process dies, or lets go.
