// Package pairing is what channels share of telling somebody how to be paired: asking for the code, and the sentence that it stands
// in. Who is paired, and whether anybody is told, is for package channel.
package pairing

import (
	"context"

	"github.com/lingserve/lingserve/channel"
)

// Requester is a store of pairs that makes codes: [*channel.Pairs].
type Requester interface {
	Request(_ context.Context, channel, account string, s channel.SenderFacts) (code string, tell bool, err error)
}

// Challenge asks for a code for a sender of a channel, and returns what to tell him. It is "" where there is nothing to tell: the store
// makes no codes, the sender is paired, or he was told the code a short time ago. mark stands around what is typed as it is, for
// platforms that show that in another way; "" for none.
func Challenge(ctx context.Context, store channel.Pairing, name, account string, s channel.SenderFacts, mark string) (string, error) {
	pairs, ok := store.(Requester)
	if !ok {
		return "", nil
	}
	code, tell, err := pairs.Request(ctx, name, account, s)
	if err != nil || !tell {
		return "", err
	}
	return "You need to be paired before you can talk here. Your code is " + mark + code + mark +
		". The operator of this server pairs you with: " + mark + "lingserve channels pair approve " + code + mark, nil
}
