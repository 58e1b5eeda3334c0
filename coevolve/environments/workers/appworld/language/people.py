"""How people ask for what Venmo, Splitwise, the phone, Gmail and Todoist do, and what they want to know.

People are named as their contacts name them. A payment is told apart by its note, sender and receiver, an email thread by its
subject, a task by its title.
"""

from __future__ import annotations

from .phrases import ask, look

_NAMED = {"email": "{name}"}
"""Of the people that rows mention as {name, email}."""
_PERSON = {"email": "{first_name} {last_name}"}
_PAYMENT = _NAMED | {"transaction_id": '"{description}" from {sender.name} to {receiver.name}'}
_PAYMENT_FACTS = {
    "amount": 'the amount of the Venmo payment "{description}" from {sender.name} to {receiver.name}'
}
_REQUEST_FACTS = {
    "amount": 'the amount of the Venmo payment request "{description}" from {sender.name} to {receiver.name}'
}

VENMO = {
    "create_transaction": ask(
        "send {receiver_email} ${amount} on Venmo",
        "pay {receiver_email} ${amount} on Venmo",
        optional={"description": ', with the note "{description}"'},
        literal=("amount", "description"),
        lookup=("receiver_email",),
    ),
    "create_payment_request": ask(
        "request ${amount} from {user_email} on Venmo",
        "ask {user_email} for ${amount} on Venmo with a payment request",
        optional={"description": ', with the note "{description}"'},
        literal=("amount", "description"),
        lookup=("user_email",),
    ),
    "add_friend": ask(
        "add {user_email} to my friends on Venmo",
        "make {user_email} my Venmo friend",
        lookup=("user_email",),
    ),
    "remove_friend": ask(
        "remove {user_email} from my friends on Venmo",
        "unfriend {user_email} on Venmo",
        lookup=("user_email",),
    ),
    "like_transaction": ask("like the Venmo payment {transaction_id}", lookup=("transaction_id",)),
    "create_transaction_comment": ask(
        'comment on the Venmo payment {transaction_id}: "{comment}"',
        literal=("comment",),
        lookup=("transaction_id",),
    ),
    "update_transaction": ask(
        'change the note of the Venmo payment {transaction_id} to "{description}"',
        literal=("description",),
        lookup=("transaction_id",),
    ),
    "approve_payment_request": ask(
        "approve the Venmo payment request {payment_request_id}", lookup=("payment_request_id",)
    ),
    "deny_payment_request": ask(
        "deny the Venmo payment request {payment_request_id}", lookup=("payment_request_id",)
    ),
    "delete_payment_request": ask(
        "withdraw my Venmo payment request {payment_request_id}", lookup=("payment_request_id",)
    ),
    "add_to_venmo_balance": ask(
        "top up my Venmo balance by ${amount} from my {payment_card_id} card",
        literal=("amount",),
        lookup=("payment_card_id",),
    ),
    "withdraw_from_venmo_balance": ask(
        "withdraw ${amount} from my Venmo balance to my {payment_card_id} card",
        literal=("amount",),
        lookup=("payment_card_id",),
    ),
    "search_users": look("query", rows=_PERSON),
    "search_friends": look("query", rows=_PERSON),
    "show_transactions": look(rows=_PAYMENT, facts=_PAYMENT_FACTS),
    "show_received_payment_requests": look(
        rows=_NAMED | {"payment_request_id": '"{description}" from {sender.name}'},
        facts=_REQUEST_FACTS,
    ),
    "show_sent_payment_requests": look(
        rows=_NAMED | {"payment_request_id": '"{description}" to {receiver.name}'},
        facts=_REQUEST_FACTS,
    ),
    "show_payment_cards": look(rows={"payment_card_id": "{card_name}"}),
    "show_venmo_balance": look(refer={"venmo_balance": "my Venmo balance"}),
}

_GROUP = _NAMED | {"group_id": "{name}"}

SPLITWISE = {
    "create_group": ask(
        'make a Splitwise group called "{name}" with {member_emails} as members',
        literal=("name", "member_emails"),
    ),
    "update_group": ask(
        'rename my Splitwise group "{group_id}" to "{name}"',
        literal=("name",),
        lookup=("group_id",),
        needs=("name",),
    ),
    "add_member_to_group": ask(
        'add {user_email} to my Splitwise group "{group_id}"', lookup=("group_id", "user_email")
    ),
    "post_expense_comment": ask(
        'comment on the Splitwise expense "{expense_id}": "{comment}"',
        literal=("comment",),
        lookup=("expense_id",),
    ),
    "delete_expense": ask('delete the Splitwise expense "{expense_id}"', lookup=("expense_id",)),
    "show_groups": look(rows=_GROUP),
    "show_group_expenses": look(
        rows=_NAMED | {"expense_id": "{description}"},
        facts={"paid_amount": 'the amount paid for the Splitwise expense "{description}"'},
        lookup=("group_id",),
    ),
    "search_users": look("query", rows=_NAMED),
    "show_people_balance": look(
        refer={
            "you_owe_others": "how much I owe others on Splitwise in all",
            "others_owe_you": "how much others owe me on Splitwise in all",
        }
    ),
}

_CONTACT = {
    "contact_id": "{first_name} {last_name}",
    "phone_number": "{first_name} {last_name}",
    "email": "{first_name} {last_name}",
}
_DAYS = {
    '["monday"]': "every Monday",
    '["saturday","sunday"]': "on Saturdays and Sundays",
    '["tuesday","friday"]': "on Tuesdays and Fridays",
}

PHONE = {
    "send_text_message": ask(
        'text {phone_number} exactly this from my phone: "{message}"',
        'send {phone_number} a text message from my phone that says exactly "{message}"',
        literal=("message",),
        lookup=("phone_number",),
    ),
    "send_voice_message": ask(
        'send {phone_number} a voice message from my phone that says exactly "{message}"',
        literal=("message",),
        lookup=("phone_number",),
    ),
    "add_contact": ask(
        "add {first_name} {last_name} to my phone's contacts, with the phone number {phone_number}",
        literal=("first_name", "last_name", "phone_number"),
    ),
    "delete_contact": ask("delete {contact_id} from my phone's contacts", lookup=("contact_id",)),
    "update_contact": ask(
        'set the work address of {contact_id} in my phone\'s contacts to "{work_address}"',
        literal=("work_address",),
        lookup=("contact_id",),
        needs=("work_address",),
    ),
    "create_alarm": ask(
        "set an alarm for {time} on my phone",
        "create a phone alarm at {time}",
        optional={"label": ', with the label "{label}"', "repeat_days": ", {repeat_days}"},
        words={"repeat_days": _DAYS},
        literal=("time", "label", "repeat_days"),
    ),
    "delete_alarm": ask('delete the alarm "{alarm_id}" from my phone', lookup=("alarm_id",)),
    "update_alarm": ask(
        'move the alarm "{alarm_id}" of my phone to {time}',
        literal=("time",),
        lookup=("alarm_id",),
        needs=("time",),
    ),
    "search_contacts": look(
        "query",
        rows=_CONTACT,
        facts={
            "birthday": "the birthday of {first_name} {last_name}, exactly as my phone's contacts have it",
            "home_address": "the home address of {first_name} {last_name} in my phone's contacts",
        },
    ),
    "show_alarms": look(
        rows={"alarm_id": "{label}"}, facts={"time": 'the time of the alarm "{label}" on my phone'}
    ),
}

_THREAD = _NAMED | {"email_thread_id": "{subject}"}


def _thread(*do: str) -> dict:
    return ask(*do, lookup=("email_thread_id",))


GMAIL = {
    "send_email": ask(
        'send an email from my Gmail to {email_addresses}, with the subject "{subject}" and exactly this text: "{body}"',
        literal=("email_addresses", "subject", "body"),
    ),
    "create_draft": ask(
        'draft an email in Gmail to {recipient_email_addresses} that says exactly "{body}"',
        optional={"subject": ', with the subject "{subject}"'},
        literal=("recipient_email_addresses", "subject", "body"),
    ),
    "delete_draft": ask('delete my Gmail draft "{draft_id}"', lookup=("draft_id",)),
    "label_thread": ask(
        'label the Gmail thread "{email_thread_id}" as "{label}"',
        literal=("label",),
        lookup=("email_thread_id",),
    ),
    "mark_thread_read": _thread('mark the Gmail thread "{email_thread_id}" as read'),
    "mark_thread_unread": _thread('mark the Gmail thread "{email_thread_id}" as unread'),
    "mark_thread_archived": _thread('archive the Gmail thread "{email_thread_id}"'),
    "mark_thread_spam": _thread('mark the Gmail thread "{email_thread_id}" as spam'),
    "mark_thread_starred": _thread('star the Gmail thread "{email_thread_id}"'),
    "delete_thread": _thread('delete the Gmail thread "{email_thread_id}"'),
    "show_inbox_threads": look("query", rows=_THREAD),
    "show_outbox_threads": look("query", rows=_THREAD),
    "show_drafts": look(rows={"draft_id": "{subject}"}),
    "show_category_sizes": look(
        refer={
            "inbox": "the number of threads in my Gmail inbox",
            "outbox": "the number of threads in my Gmail outbox",
        }
    ),
}

_TASK = {"task_id": "{title}"}

TODOIST = {
    "create_project": ask(
        'create a Todoist project called "{name}"',
        'start a new Todoist project "{name}"',
        refer={"project_id": "{name}"},
        literal=("name",),
    ),
    "delete_project": ask('delete my Todoist project "{project_id}"', lookup=("project_id",)),
    "update_project": ask(
        'rename my Todoist project "{project_id}" to "{name}"',
        literal=("name",),
        lookup=("project_id",),
        needs=("name",),
    ),
    "create_section": ask(
        'add a section "{name}" to my Todoist project "{project_id}"',
        literal=("name",),
        lookup=("project_id",),
    ),
    "create_task": ask(
        'add the task "{title}" to my Todoist project "{project_id}"',
        'create a task called "{title}" in the Todoist project "{project_id}"',
        optional={"priority": ", with {priority} priority"},
        refer={"task_id": "{title}"},
        literal=("title", "priority"),
        lookup=("project_id",),
    ),
    "update_task": ask(
        'set the priority of the Todoist task "{task_id}" to {priority}',
        'change the Todoist task "{task_id}" to {priority} priority',
        literal=("priority",),
        lookup=("task_id",),
        needs=("priority",),
    ),
    "delete_task": ask('delete the Todoist task "{task_id}"', lookup=("task_id",)),
    "create_sub_task": ask(
        'add the sub-task "{title}" to the Todoist task "{task_id}"',
        literal=("title",),
        lookup=("task_id",),
    ),
    "post_task_comment": ask(
        'comment on the Todoist task "{task_id}": "{content}"',
        literal=("content",),
        lookup=("task_id",),
    ),
    "create_label": ask(
        'create a Todoist label called "{name}"',
        optional={"color": ", in {color}"},
        refer={"label_id": "{name}"},
        literal=("name", "color"),
    ),
    "delete_label": ask('delete the Todoist label "{label_id}"', lookup=("label_id",)),
    "add_label_to_task": ask(
        'put the label "{label_id}" on the Todoist task "{task_id}"', lookup=("label_id", "task_id")
    ),
    "show_projects": look(
        rows={"project_id": "{name}"},
        facts={"num_tasks": 'the number of tasks in my Todoist project "{name}"'},
    ),
    "show_tasks": look(
        rows=_TASK,
        facts={"priority": 'the priority of the Todoist task "{title}"'},
        lookup=("project_id",),
    ),
    "search_labels": look(
        rows={"label_id": "{name}"}, facts={"color": 'the color of the Todoist label "{name}"'}
    ),
}

SUPERVISOR = {
    "complete_task": ask(
        "tell me {answer}", "let me know {answer}", lookup=("answer",), needs=("answer",)
    )
}
