package platform_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/lingserve/lingserve/channel/platform"
)

func TestASecretPrintsAsStarsHoweverItIsPrinted(t *testing.T) {
	const canary = "canary-token"
	s := platform.Secret(canary)
	inside := struct{ Token platform.Secret }{s}
	var text, lines bytes.Buffer
	slog.New(slog.NewTextHandler(&text, nil)).Info("x", "token", s)
	slog.New(slog.NewJSONHandler(&lines, nil)).Info("x", "token", s, "inside", inside)
	encoded, err := json.Marshal(inside)
	if err != nil {
		t.Fatal(err)
	}
	for _, got := range []string{
		s.String(), fmt.Sprint(s), fmt.Sprintf("%s %q %v %+v %#v", s, s, s, s, s), fmt.Sprintf("%v %+v %#v", inside, inside, inside),
		fmt.Sprint(&inside), fmt.Errorf("with %v", s).Error(), string(encoded), text.String(), lines.String(),
	} {
		if strings.Contains(got, "canary") || !strings.Contains(got, "***") {
			t.Errorf("%q", got)
		}
	}
	if string(s) != canary {
		t.Error("the text is lost")
	}
}
