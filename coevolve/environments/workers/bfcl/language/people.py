"""How people ask for MessageAPI, TwitterAPI and TicketAPI.

An id is asked for as "… whose ID is {x}", so that a number and a phrase ("the one of the new ticket …") both fit. Texts are
quoted by `words`, for the same reason.
"""

from __future__ import annotations

from ..content import COMMENTS, NEW_TICKETS, NEW_TWEETS, RESOLUTIONS, SENTENCES
from .phrases import ask, quoted, read, said

MESSAGES = {
    "add_contact": ask(
        "add {user_name} as a new contact in the message workspace",
        "make {user_name} a contact in the message workspace",
        refer={"user_id": "the new contact {user_name}"},
        literal=("user_name",),
    ),
    "delete_message": ask(
        "delete the latest message that went to {receiver_id}",
        "take back the last message sent to {receiver_id}",
    ),
    "get_message_stats": read(
        "show me the statistics of my messages", "tell me my message statistics"
    ),
    "get_user_id": read(
        "tell me the user ID of {user} in the message workspace",
        "look up which user ID {user} has in the message workspace",
        literal=("user",),
        refer={"user_id": "{user} (look up the user ID)"},
    ),
    "list_users": read(
        "list all users of the message workspace",
        "show me who is in the message workspace",
        refer={"user_list": "the users of the message workspace"},
    ),
    "message_get_login_status": ask(
        "check whether I am logged in to the message workspace", read_only=True
    ),
    "message_login": ask(
        "log me in to the message workspace as {user_id}",
        "sign in to the message workspace as {user_id}",
        literal=("user_id",),
    ),
    "search_messages": read(
        'search my messages for "{keyword}"',
        'show me the messages that contain "{keyword}"',
        literal=("keyword",),
    ),
    "send_message": ask(
        "send {receiver_id} this message: {message}",
        "message {receiver_id} as follows: {message}",
        literal=("message",),
        words={"message": quoted(SENTENCES)},
    ),
    "view_messages_sent": read("show me all messages that I have sent", "list my sent messages"),
}

TWITTER = {
    "authenticate_twitter": ask(
        "log me in to Twitter as {username} with the password {password}",
        "sign in to Twitter; my username is {username} and my password is {password}",
        literal=("username", "password"),
    ),
    "comment": ask(
        "comment as follows on the tweet whose ID is {tweet_id}: {comment_content}",
        "under the tweet whose ID is {tweet_id}, leave this comment: {comment_content}",
        literal=("comment_content",),
        words={"comment_content": quoted(COMMENTS)},
    ),
    "follow_user": ask(
        "follow {username_to_follow} on Twitter", "start following {username_to_follow} on Twitter"
    ),
    "get_tweet": read(
        "show me the tweet whose ID is {tweet_id}",
        "fetch the tweet whose ID is {tweet_id}",
        refer={
            "content": "the text of the tweet whose ID is {tweet_id}",
            "username": "the author of the tweet whose ID is {tweet_id}",
        },
    ),
    "get_tweet_comments": read(
        "show me the comments on the tweet whose ID is {tweet_id}",
        "list what people commented on the tweet whose ID is {tweet_id}",
    ),
    "get_user_stats": read(
        "show me the Twitter statistics of {username}",
        "tell me the tweet, following and retweet counts of {username} on Twitter",
    ),
    "get_user_tweets": read(
        "show me all tweets by {username}", "list everything that was tweeted by {username}"
    ),
    "list_all_following": read(
        "list everyone that I follow on Twitter",
        "show me whom I am following on Twitter",
        refer={"following_list": "the people that I follow"},
    ),
    "mention": ask(
        "mention {mentioned_usernames} in the tweet whose ID is {tweet_id}",
        "add a mention of {mentioned_usernames} to the tweet whose ID is {tweet_id}",
        literal=("mentioned_usernames",),
    ),
    "post_tweet": ask(
        "post this tweet: {content}",
        "publish this as a tweet: {content}",
        optional={
            "tags": ", with {tags} in its list of tags",
            "mentions": ", with {mentions} in its list of mentions",
        },
        literal=("content", "tags", "mentions"),
        refer={"id": "the one of the new tweet that says {content}"},
        words={"content": quoted(NEW_TWEETS)},
    ),
    "posting_get_login_status": ask("check whether I am logged in to Twitter", read_only=True),
    "retweet": ask(
        "retweet the tweet whose ID is {tweet_id}",
        "share the tweet whose ID is {tweet_id} as a retweet",
    ),
    "search_tweets": read(
        'search all tweets for "{keyword}"',
        'show me the tweets that contain "{keyword}"',
        literal=("keyword",),
    ),
    "unfollow_user": ask(
        "unfollow {username_to_unfollow} on Twitter",
        "stop following {username_to_unfollow} on Twitter",
    ),
}

_TITLES, _DESCRIPTIONS = zip(*NEW_TICKETS, strict=True)

_UPDATES = [
    *(({"priority": number}, f"priority becomes {number}") for number in range(1, 6)),
    *(
        ({"status": status}, f'status becomes "{status}"')
        for status in ("In Progress", "On Hold", "Reopened")
    ),
]
UPDATES = [value for value, _ in _UPDATES]
"""Edits of a ticket that can be said in words."""

TICKETS = {
    "close_ticket": ask(
        "close the ticket whose ID is {ticket_id}",
        "mark the ticket whose ID is {ticket_id} as closed",
    ),
    "create_ticket": ask(
        "open a support ticket with this title: {title}",
        "create a ticket that has this title: {title}",
        optional={
            "description": ", with this description: {description}",
            "priority": ", with priority {priority}",
        },
        absent={"description": ", without a description", "priority": ", with priority 1"},
        literal=("title", "description", "priority"),
        refer={"id": "the one of the new ticket with the title {title}"},
        words={"title": quoted(_TITLES), "description": quoted(_DESCRIPTIONS)},
    ),
    "edit_ticket": ask(
        "edit the ticket whose ID is {ticket_id} so that its {updates}",
        "change the ticket whose ID is {ticket_id}: its {updates}",
        literal=("updates",),
        words={"updates": said(_UPDATES)},
    ),
    "get_ticket": read(
        "show me the ticket whose ID is {ticket_id}",
        "fetch the details of the ticket whose ID is {ticket_id}",
    ),
    "get_user_tickets": read(
        "list my support tickets",
        "show me the tickets that I created",
        optional={"status": ' with the status "{status}"'},
        absent={"status": ", whatever their status"},
        literal=("status",),
    ),
    "logout": ask("log me out of the ticket system", "sign me out of the ticket system"),
    "resolve_ticket": ask(
        "resolve the ticket whose ID is {ticket_id}, with the resolution {resolution}",
        "mark the ticket whose ID is {ticket_id} as resolved; the resolution is {resolution}",
        literal=("resolution",),
        words={"resolution": quoted(RESOLUTIONS)},
    ),
    "ticket_get_login_status": ask(
        "check whether I am logged in to the ticket system", read_only=True
    ),
    "ticket_login": ask(
        "log me in to the ticket system as {username} with the password {password}",
        "sign in to the ticket system; my username is {username} and my password is {password}",
        literal=("username", "password"),
    ),
}
