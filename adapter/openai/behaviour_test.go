package openai

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/adapter/adaptertest"
	"github.com/lingserve/lingserve/internal/fakeproviders"
)

// canary is a key that must never be seen again.
const canary = adaptertest.Key

func newAzure(t testing.TB, o Options, version string) adapter.Provider {
	t.Helper()
	p, err := NewAzure(o, version)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func newProvider(t testing.TB, o Options) adapter.Provider {
	t.Helper()
	p, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

var (
	finish    = adaptertest.OpenAI.Finish
	textEvent = adaptertest.OpenAI.Text
)

// subject is this adapter, as the suite of all adapters sees it.
var subject = adaptertest.Subject{
	Prefix:  "openai",
	KeyName: "OPENAI_API_KEY",
	New: func(t testing.TB, o adaptertest.Options) adapter.Provider {
		return newProvider(t, Options{
			BaseURL: o.BaseURL + "/v1", Key: o.Key, Transport: o.Transport, MaxEvent: o.MaxEvent,
		})
	},
	Wire: adaptertest.OpenAI,
}

// AD-01, AD-06, AD-07 and what else every adapter promises.
func TestSuite(t *testing.T) { adaptertest.Run(t, subject) }

// Any comment may be as long as it likes: it is dropped line by line (FT-05, FT-12).
func TestCommentsOfAnyLengthAreDropped(t *testing.T) {
	m, _ := newProvider(t, Options{Transport: bodyOf(func() io.Reader {
		return io.MultiReader(strings.NewReader(strings.Repeat(": is it you\n", 1<<20)+"\n"), strings.NewReader(textEvent("a")+finish))
	})}).Model("m")
	if text, err := collect(m, t.Context()); text != "a" || err != nil {
		t.Errorf("%q %v", text, err)
	}
}

// What stands in a base URL is not in an error (SE-06).
func TestAnAddressWithAPasswordIsNotTold(t *testing.T) {
	m, _ := newProvider(t, Options{BaseURL: "http://user:" + canary + "@127.0.0.1:1", Key: canary}).Model("m")
	_, err := collect(m, t.Context())
	e, ok := errors.AsType[*adapter.Error](err)
	if !ok || e.Code != adapter.CodeUnavailable || !strings.Contains(e.Message, "cannot connect to") || strings.Contains(e.Message, "127.0.0.1") ||
		strings.Contains(fmt.Sprintf("%v %+v", e, e.Cause), "CANARY") {
		t.Errorf("%+v %v", e, e.Cause)
	}
}

// bodyOf answers every request with the stream that it makes.
type bodyOf func() io.Reader

func (b bodyOf) RoundTrip(*http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: 200, Header: http.Header{"Content-Type": {"text/event-stream"}}, Body: io.NopCloser(b())}, nil
}

func answers(a fakeproviders.Answer) func(fakeproviders.Request) fakeproviders.Answer {
	return func(fakeproviders.Request) fakeproviders.Answer { return a }
}

func collect(m adapter.Model, ctx context.Context) (text string, err error) {
	for c, e := range m.Stream(ctx, adapter.Request{}) {
		text, err = text+c.Text, e
	}
	return text, err
}
