//! What can be wrong with a backend.

macro_rules! faults {
    ($($(#[$doc:meta])* $fault:ident => $case:literal;)*) => {
        /// One way to be wrong, and the case of the suite that must find it.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum Fault { $($(#[$doc])* $fault,)* }

        impl Fault {
            /// Every fault.
            pub const ALL: &'static [Self] = &[$(Self::$fault,)*];

            /// The case that must fail on it.
            #[must_use]
            pub const fn found_by(self) -> &'static str {
                match self { $(Self::$fault => $case,)* }
            }
        }
    };
}

faults! {
    /// Empty arguments are dropped.
    DropsEmptyArguments => "exec::argv_is_exact";
    /// Arguments are passed through a shell.
    ExpandsArguments => "exec::argv_is_exact";
    /// Arguments pass through text.
    ReadsArgumentsAsText => "exec::argv_is_exact";
    /// Variables of the host are inside.
    LeaksHostVariables => "exec::env_is_what_was_asked_and_nothing_of_the_host";
    /// A command's own variables are ignored.
    IgnoresVariables => "exec::env_is_what_was_asked_and_nothing_of_the_host";
    /// The working directory asked for is ignored.
    IgnoresCwd => "exec::cwd_is_the_workspace_unless_asked";
    /// Standard input ends early.
    CutsInput => "exec::stdin_is_exact_and_empty_when_absent";
    /// Every command exits with 0.
    SwallowsExitCode => "exec::every_exit_code_comes_back";
    /// A signal is told as 128 + its number.
    TellsSignalsAsCodes => "exec::a_signal_is_told_apart_from_a_code";
    /// A missing program is told as exit code 127.
    StartsNothingQuietly => "exec::what_cannot_start_is_command_not_started";
    /// A command may run for ever.
    IgnoresTimeout => "exec::a_timeout_ends_the_command_and_keeps_its_output";
    /// Whoever hangs up leaves the command running, and kills are ignored.
    LeavesDroppedCommands => "exec::dropping_the_call_kills_the_tree";
    /// Standard error comes on standard output.
    MixesStreams => "output::the_two_streams_are_apart";
    /// Output is read as text.
    ReadsOutputAsText => "output::bytes_of_every_value_come_back";
    /// What is printed just before the end is lost.
    LosesLastBytes => "output::the_last_bytes_before_the_end_are_not_lost";
    /// Commands are not listed.
    HidesProcesses => "processes::a_running_command_is_listed";
    /// A command ends with its first listener, asked or not.
    KillsBackgroundCommands => "processes::a_background_command_outlives_its_handle";
    /// The cursor of an attach is ignored.
    ReplaysFromTheStart => "processes::attach_resumes_at_the_byte_cursor";
    /// An attach whose bytes are gone goes on silently with later ones.
    HidesLostOutput => "processes::a_cursor_too_old_is_expired";
    /// Every signal is SIGKILL.
    KnowsOneSignal => "processes::a_signal_reaches_the_command";
    /// A range lacks its first byte.
    CountsRangesWrong => "files::ranges_are_exact";
    /// Writing over a longer file leaves its end.
    KeepsOldContent => "files::parents_are_made_and_old_content_is_cut";
    /// Names lose what surrounds them.
    TrimsNames => "files::names_are_bytes";
    /// Files that are not inside are read from the host.
    ReadsHostFiles => "files::no_path_leads_to_the_host";
    /// Every sandbox has the same files.
    SharesFiles => "lifecycle::twenty_live_side_by_side";
    /// The id asked for is ignored.
    IgnoresId => "lifecycle::an_id_asked_for_is_kept_and_others_differ";
    /// Taking it down never ends.
    HangsOnDestroy => "lifecycle::destroy_is_idempotent_and_final";
    /// What was destroyed stays listed.
    StaysListed => "lifecycle::a_detached_sandbox_is_found_again";
    /// The network is open under deny-all.
    LeaksNetwork => "egress::deny_all_blocks_a_connect_to_the_host";
    /// The network is closed under allow-all.
    BlocksEverything => "egress::allow_all_reaches_the_host";
    /// Datagrams leave under deny-all.
    LeaksDatagrams => "egress::the_walls_of_deny_all_pass_the_self_test";
    /// Under a policy that lists hosts the network is open beside the doors.
    LeaksPastTheDoors => "egress::the_walls_of_static_pass_the_self_test";
    /// Says that it opened doors, and opened none.
    OpensNoDoors => "egress::static_reaches_by_proxy";
    /// There is no way to get doors inside.
    HasNoGate => "egress::the_receipt_follows_a_change";
    /// The receipt does not own up to the wall that lists of hosts need.
    DisownsItsWall => "egress::static_is_enforced_and_in_the_receipt";
    /// The memory limit is not held.
    IgnoresMemoryLimit => "limits::memory_bites";
    /// The limit on processes is not held.
    IgnoresPidsLimit => "limits::pids_bite_and_the_sandbox_lives";
    /// The lifetime is not held.
    OutlivesItsLifetime => "limits::a_lifetime_ends_the_sandbox";
    /// The receipt speaks of a system-call filter that nobody declared.
    ClaimsAFilter => "receipt::plan_says_what_create_gives";
}
