package pairing_test

import (
	"context"
	"regexp"
	"testing"

	"github.com/lingserve/lingserve/channel"
	"github.com/lingserve/lingserve/channel/pairing"
)

// known is a store that makes no codes.
type known struct{}

func (known) Paired(context.Context, string, string, string) (bool, error) { return false, nil }

var ann = channel.SenderFacts{ID: "7", Name: "Ann"}

func TestASenderIsToldACodeThatWorksAndIsToldItOnce(t *testing.T) {
	for mark, form := range map[string]string{
		"":  `^You need to be paired before you can talk here\. Your code is ([A-Z2-9]{8})\. The operator of this server pairs you with: lingserve channels pair approve ([A-Z2-9]{8})$`,
		"`": "^You need to be paired before you can talk here\\. Your code is `([A-Z2-9]{8})`\\. The operator of this server pairs you with: `lingserve channels pair approve ([A-Z2-9]{8})`$",
	} {
		t.Run("mark "+mark, func(t *testing.T) {
			pairs := channel.NewPairs(nil)
			text, err := pairing.Challenge(t.Context(), pairs, "telegram", "b", ann, mark)
			if err != nil {
				t.Fatal(err)
			}
			found := regexp.MustCompile(form).FindStringSubmatch(text)
			if found == nil || found[1] != found[2] {
				t.Fatalf("%q", text)
			}
			if text, err := pairing.Challenge(t.Context(), pairs, "telegram", "b", ann, mark); text != "" || err != nil {
				t.Errorf("told again: %q %v", text, err)
			}
			if p, err := pairs.Approve(t.Context(), "telegram", found[1]); err != nil || p.Sender != "7" || p.Account != "b" {
				t.Fatalf("%+v %v", p, err)
			}
			if text, err := pairing.Challenge(t.Context(), pairs, "telegram", "b", ann, mark); text != "" || err != nil {
				t.Errorf("somebody who is paired is told %q %v", text, err)
			}
		})
	}
}

func TestNobodyIsToldAnythingWhereThereAreNoCodes(t *testing.T) {
	for name, store := range map[string]channel.Pairing{"no store": nil, "a store without codes": known{}} {
		if text, err := pairing.Challenge(t.Context(), store, "telegram", "", ann, ""); text != "" || err != nil {
			t.Errorf("%s: %q %v", name, text, err)
		}
	}
}

func TestAStoreThatMakesNoCodeIsAnError(t *testing.T) {
	if text, err := pairing.Challenge(t.Context(), channel.NewPairs(nil), "telegram", "", channel.SenderFacts{Name: "x"}, ""); text != "" || err == nil {
		t.Errorf("%q %v", text, err)
	}
}
