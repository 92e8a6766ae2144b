package slack_test

import (
	"fmt"
	"net/http/httptest"
	"strings"
	"time"

	"github.com/lingserve/lingserve/channel/slack"
	"github.com/lingserve/lingserve/internal/fakeslack"
)

// The Request URL of an app is where its channel's webhook is. Slack asks once whether it is there.
func Example() {
	c, err := slack.New(slack.Settings{Token: "xoxb-…", SigningSecret: "0123456789abcdef"})
	fmt.Println(err)
	c, err = slack.New(slack.Settings{Token: "xoxb-1-secret", SigningSecret: "0123456789abcdef"})
	if err != nil {
		fmt.Println(err)
		return
	}
	body := `{"type":"url_verification","challenge":"3eZbrw1aB10FEMAGAZd4FyFQ"}`
	r := httptest.NewRequest("POST", "/v1/channels/slack/webhook", strings.NewReader(body))
	fakeslack.Sign(r.Header, "0123456789abcdef", []byte(body), time.Now())
	w := httptest.NewRecorder()
	c.Webhook().ServeHTTP(w, r)
	fmt.Println(w.Code, w.Body)
	// Output:
	// slack: the token is not a bot token; expected xoxb-… from the app's page OAuth & Permissions
	// 200 3eZbrw1aB10FEMAGAZd4FyFQ
}
