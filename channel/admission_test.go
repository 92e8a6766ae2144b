package channel_test

import (
	"testing"

	"github.com/lingserve/lingserve/channel"
)

func TestReasonsHaveHTTPStatuses(t *testing.T) { // CH-14
	for reason, want := range map[channel.Reason]int{
		"": 200, channel.ReasonMerged: 200, channel.ReasonMissingMention: 200, channel.ReasonUnsupported: 400, channel.ReasonPairingRequired: 403,
		channel.ReasonNoPolicy: 403, channel.ReasonSelfEcho: 403, "a new one": 403, channel.ReasonNoRoute: 404, channel.ReasonSessionBusy: 409,
		channel.ReasonTooLarge: 413, channel.ReasonRateLimited: 429, channel.ReasonOverloaded: 503,
	} {
		if got := reason.HTTPStatus(); got != want {
			t.Errorf("%q: %d, expected %d", reason, got, want)
		}
	}
}
