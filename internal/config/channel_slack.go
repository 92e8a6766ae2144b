package config

// Slack has the settings of a channel of type slack; see package channel/slack.
type Slack struct {
	Token         Secret
	SigningSecret Secret
	API           string
	Replies       string
	Preview       string
	MaxMedia      Size
}

func slackSettings(at string, of func(*Config) *Channel) []Setting {
	return []Setting{
		{
			Key: at + "token", Secret: true,
			Help:  "token of the app's bot, xoxb-…, from its page OAuth & Permissions",
			field: func(c *Config) any { return &of(c).Slack.Token },
		},
		{
			Key: at + "signing_secret", Secret: true,
			Help:  "signing secret of events, from the app's page Basic Information",
			field: func(c *Config) any { return &of(c).Slack.SigningSecret },
		},
		{
			Key: at + "api", Default: "https://slack.com/api", check: checkURL,
			Help:  "address of the Web API",
			field: func(c *Config) any { return &of(c).Slack.API },
		},
		{
			Key: at + "replies", Default: "thread", OneOf: []string{"thread", "channel"},
			Help:  "where a message in a channel is answered: in its thread, or in the channel",
			field: func(c *Config) any { return &of(c).Slack.Replies },
		},
		{
			Key: at + "preview", Default: "edit", OneOf: []string{"edit", "off"},
			Help:  "what people see of an unfinished answer: a growing message, or nothing",
			field: func(c *Config) any { return &of(c).Slack.Preview },
		},
		{
			Key: at + "max_media", Default: "10MiB", Min: "0B",
			Help:  "maximum size of a file",
			field: func(c *Config) any { return &of(c).Slack.MaxMedia },
		},
	}
}
