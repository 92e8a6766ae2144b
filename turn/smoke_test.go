package turn

import (
	"context"
	"testing"
)

type echoPlugin struct{}

func (echoPlugin) RunModel(_ context.Context, p Prompt, _ SessionID, _ State) (string, bool, error) {
	return "echo " + p.Text, true, nil
}

func TestSmoke(t *testing.T) {
	f := New(Options{})
	if err := f.Register("echo", echoPlugin{}); err != nil {
		t.Fatal(err)
	}
	r, err := f.Process(t.Context(), &Envelope{Content: "x"})
	if err != nil || r.Output != "echo x" {
		t.Fatal(r, err)
	}
	k, err := f.Submit(t.Context(), &Envelope{Content: "x"}, WithStreaming())
	if err != nil {
		t.Fatal(err)
	}
	r, err = k.Wait(t.Context())
	if err != nil || r.Output != "echo x" {
		t.Fatal(r, err)
	}
	if err := f.Drain(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func BenchmarkProcess(b *testing.B) {
	f := New(Options{})
	f.Register("echo", echoPlugin{})
	b.ReportAllocs()
	for b.Loop() {
		f.Process(b.Context(), &Envelope{Content: "x"})
	}
}

func BenchmarkSubmit(b *testing.B) {
	f := New(Options{})
	f.Register("echo", echoPlugin{})
	b.ReportAllocs()
	for b.Loop() {
		k, _ := f.Submit(b.Context(), &Envelope{Content: "x"})
		k.Wait(b.Context())
	}
}
