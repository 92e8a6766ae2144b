package faketelegram

// User is somebody, or a bot.
type User struct {
	ID              int64  `json:"id"`
	IsBot           bool   `json:"is_bot"`
	FirstName       string `json:"first_name"`
	LastName        string `json:"last_name,omitempty"`
	Username        string `json:"username,omitempty"`
	LanguageCode    string `json:"language_code,omitempty"`
	CanJoinGroups   *bool  `json:"can_join_groups,omitempty"`
	CanReadAll      *bool  `json:"can_read_all_group_messages,omitempty"`
	SupportsInline  *bool  `json:"supports_inline_queries,omitempty"`
	CanConnect      *bool  `json:"can_connect_to_business,omitempty"`
	HasMainWebApp   *bool  `json:"has_main_web_app,omitempty"`
	HasTopics       *bool  `json:"has_topics_enabled,omitempty"`
	AllowsTopicsNew *bool  `json:"allows_users_to_create_topics,omitempty"`
}

// Chat is a conversation.
type Chat struct {
	ID        int64  `json:"id"`
	Type      string `json:"type"` // private, group, supergroup, channel
	Title     string `json:"title,omitempty"`
	Username  string `json:"username,omitempty"`
	FirstName string `json:"first_name,omitempty"`
	LastName  string `json:"last_name,omitempty"`
	IsForum   bool   `json:"is_forum,omitempty"`
}

// Message is a message as the Bot API writes it.
type Message struct {
	ID              int       `json:"message_id"`
	ThreadID        int       `json:"message_thread_id,omitempty"`
	From            *User     `json:"from,omitempty"`
	SenderChat      *Chat     `json:"sender_chat,omitempty"`
	Chat            Chat      `json:"chat"`
	Date            int64     `json:"date"`
	EditDate        int64     `json:"edit_date,omitempty"`
	IsTopic         bool      `json:"is_topic_message,omitempty"`
	ForwardOrigin   *Origin   `json:"forward_origin,omitempty"`
	ReplyTo         *Message  `json:"reply_to_message,omitempty"`
	Quote           *Quote    `json:"quote,omitempty"`
	External        *External `json:"external_reply,omitempty"`
	ViaBot          *User     `json:"via_bot,omitempty"`
	MediaGroupID    string    `json:"media_group_id,omitempty"`
	Text            string    `json:"text,omitempty"`
	Entities        []Entity  `json:"entities,omitempty"`
	Caption         string    `json:"caption,omitempty"`
	CaptionEntities []Entity  `json:"caption_entities,omitempty"`
	Photo           []File    `json:"photo,omitempty"`
	Document        *File     `json:"document,omitempty"`
	Audio           *File     `json:"audio,omitempty"`
	Voice           *File     `json:"voice,omitempty"`
	Video           *File     `json:"video,omitempty"`
	VideoNote       *File     `json:"video_note,omitempty"`
	Animation       *File     `json:"animation,omitempty"`
	Sticker         *File     `json:"sticker,omitempty"`
	MigrateTo       int64     `json:"migrate_to_chat_id,omitempty"`
	MigrateFrom     int64     `json:"migrate_from_chat_id,omitempty"`
	NewMembers      []User    `json:"new_chat_members,omitempty"`
	LeftMember      *User     `json:"left_chat_member,omitempty"`
	NewTitle        string    `json:"new_chat_title,omitempty"`
	Keyboard        *Keyboard `json:"reply_markup,omitempty"`
	TopicCreated    *Topic    `json:"forum_topic_created,omitempty"`

	Deleted bool `json:"-"`
	Silent  bool `json:"-"` // sent without a notification
}

// Keyboard is what stands below a message.
type Keyboard struct {
	Rows [][]Button `json:"inline_keyboard"`
}

// Button is one that a bot is told of.
type Button struct {
	Text string `json:"text"`
	Data string `json:"callback_data"`
}

// Press is what a bot is told of a button.
type Press struct {
	ID       string   `json:"id"`
	From     *User    `json:"from"`
	Message  *Message `json:"message,omitempty"`
	Instance string   `json:"chat_instance"`
	Data     string   `json:"data"`
}

// Topic is the name of a forum's topic.
type Topic struct {
	Name      string `json:"name"`
	IconColor int    `json:"icon_color"`
}

// Quote is the part of a message that a reply points at.
type Quote struct {
	Text     string   `json:"text"`
	Entities []Entity `json:"entities,omitempty"`
	Position int      `json:"position"`
	IsManual bool     `json:"is_manual,omitempty"`
}

// Origin is where a forwarded message comes from.
type Origin struct {
	Type           string `json:"type"` // user, hidden_user, chat, channel
	Date           int64  `json:"date"`
	SenderUser     *User  `json:"sender_user,omitempty"`
	SenderUserName string `json:"sender_user_name,omitempty"`
	SenderChat     *Chat  `json:"sender_chat,omitempty"`
	Chat           *Chat  `json:"chat,omitempty"`
	MessageID      int    `json:"message_id,omitempty"`
}

// External is what a reply says of a message in another chat.
type External struct {
	Origin    Origin `json:"origin"`
	Chat      *Chat  `json:"chat,omitempty"`
	MessageID int    `json:"message_id,omitempty"`
}

// File is a photo's size, a document, a recording; members that do not fit the kind stay out.
type File struct {
	FileID       string `json:"file_id"`
	FileUniqueID string `json:"file_unique_id"`
	Width        int    `json:"width,omitempty"`
	Height       int    `json:"height,omitempty"`
	Duration     int    `json:"duration,omitempty"`
	FileName     string `json:"file_name,omitempty"`
	MimeType     string `json:"mime_type,omitempty"`
	FileSize     int64  `json:"file_size,omitempty"`
	FilePath     string `json:"file_path,omitempty"` // in the answer of getFile
	Emoji        string `json:"emoji,omitempty"`
	Type         string `json:"type,omitempty"` // of a sticker
}

// Update is what a bot is told. The name of its one member is the kind.
type Update struct {
	ID   int64
	Kind string
	Data any
}

// WebhookInfo is what is known of a webhook.
type WebhookInfo struct {
	URL            string   `json:"url"`
	HasCertificate bool     `json:"has_custom_certificate"`
	Pending        int      `json:"pending_update_count"`
	LastErrorDate  int64    `json:"last_error_date,omitempty"`
	LastError      string   `json:"last_error_message,omitempty"`
	MaxConnections int      `json:"max_connections,omitempty"`
	AllowedUpdates []string `json:"allowed_updates,omitempty"`
	IPAddress      string   `json:"ip_address,omitempty"`
	secret         string
}
