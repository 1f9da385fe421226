//! F77: each side of a relay has handles of its own.

use protocol_core::{Config, Dialect};
use protocol_relay::{Relay, Side};

#[test]
fn f77_both_sides_have_numbers_of_their_own() {
    let numbers = |up, down| {
        let [mut up_config, mut down_config] =
            [Config::server(Dialect::ACP_V1), Config::client(Dialect::ACP_V1)];
        (up_config.connection, down_config.connection) = (up, down);
        let relay = Relay::new(up_config, down_config);
        Side::BOTH.map(|side| relay.connection(side).config().connection)
    };
    assert_eq!(numbers(0, 0), [0, 1]);
    assert_eq!(numbers(5, 5), [5, 6]);
    assert_eq!(numbers(u32::MAX, u32::MAX), [u32::MAX, 0]);
    assert_eq!(numbers(7, 3), [7, 3], "the host's own choice");
}
