package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"github.com/lingserve/lingserve/internal/fakefeishu"
	"github.com/lingserve/lingserve/internal/fakeproviders"
	"github.com/lingserve/lingserve/internal/fakeslack"
)

const (
	slackToken, slackSecret                 = "xoxb-1-2-x", "0123456789abcdef0123456789abcdef"
	feishuApp, feishuSecret, feishuKey, vfy = "cli_a", "feishu-secret", "feishu-encrypt-key", "feishu-verification-token"
)

// othersPart is the process of all that the server talks to: the models and the platforms.
func othersPart() error {
	piece := words(4 << 10)
	model := &fakeproviders.Server{Script: func(r fakeproviders.Request) fakeproviders.Answer {
		if r.Model == "large" || r.Model == "steady" {
			answer := fakeproviders.Answer{Tokens: slices.Repeat([]string{piece}, documentBytes/len(piece))}
			if r.Model == "steady" {
				answer.Pace = float64(len(answer.Tokens)) / documentTime.Seconds()
			}
			return answer
		}
		return fakeproviders.Answer{Tokens: strings.SplitAfter("one two three four five six seven eight", " "), Pace: 8 / holdTime.Seconds()}
	}}
	slack := fakeslack.New(&fakeslack.Options{Token: slackToken, Secret: slackSecret, Deliver: http.DefaultClient})
	defer slack.Close()
	feishu := fakefeishu.New(&fakefeishu.Options{AppID: feishuApp, AppSecret: feishuSecret, Key: feishuKey, Token: vfy, Deliver: http.DefaultClient})
	defer feishu.Close()
	for _, h := range []http.Handler{model, slack, feishu} {
		s := httptest.NewServer(h)
		defer s.Close()
		fmt.Println(strings.TrimPrefix(s.URL, "http://"))
	}
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, syscall.SIGTERM, syscall.SIGINT)
	<-ended
	return nil
}
