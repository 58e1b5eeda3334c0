"""How people ask for what Spotify, Amazon, the file system and Simple Note do.

A row is named as its owner names it: a song by its title, a product by its name. Titles stand in quotes, so that a request
shows where they end.
"""

from __future__ import annotations

from ..values import INVENTED
from .phrases import ask, look, quoted, said

_SONG_FACTS = {
    "duration": 'the length in seconds of the song "{title}" on Spotify',
    "album_title": 'the album on which the song "{title}" is on Spotify',
}
_MORE_SONG_FACTS = {
    **_SONG_FACTS,
    "rating": 'the Spotify rating of the song "{title}"',
    "play_count": 'the play count of the song "{title}" on Spotify',
    "genre": 'the genre of the song "{title}" on Spotify',
    "release_date": 'the release date of the song "{title}", exactly as Spotify has it',
}
_ALBUM_FACTS = {
    "rating": 'the Spotify rating of the album "{title}"',
    "genre": 'the genre of the album "{title}" on Spotify',
}
_ARTIST_FACTS = {
    "genre": "the genre of the artist {name} on Spotify",
    "follower_count": "the number of Spotify followers of the artist {name}",
}
_SONG, _ALBUM, _PLAYLIST, _ARTIST = (
    {"song_id": "{title}", "album_id": "{album_title}"},
    {"album_id": "{title}"},
    {"playlist_id": "{title}", "email": "{name}"},
    {"artist_id": "{name}"},
)

SPOTIFY = {
    "like_song": ask(
        'like the song "{song_id}" on Spotify',
        'give the Spotify song "{song_id}" a like',
        lookup=("song_id",),
    ),
    "unlike_song": ask(
        'unlike the song "{song_id}" on Spotify',
        'take back my like of the Spotify song "{song_id}"',
        lookup=("song_id",),
    ),
    "like_album": ask(
        'like the album "{album_id}" on Spotify',
        'give the Spotify album "{album_id}" a like',
        lookup=("album_id",),
    ),
    "unlike_album": ask('unlike the album "{album_id}" on Spotify', lookup=("album_id",)),
    "create_playlist": ask(
        'make a new Spotify playlist called "{title}"',
        'create a Spotify playlist with the title "{title}"',
        optional={"is_public": ", and make it {is_public}"},
        words={"is_public": said(true="public", false="private")},
        refer={"playlist_id": "{title}"},
        literal=("title",),
    ),
    "delete_playlist": ask(
        'delete my Spotify playlist "{playlist_id}"',
        'remove the playlist "{playlist_id}" from my Spotify account',
        lookup=("playlist_id",),
    ),
    "update_playlist": ask(
        'rename my Spotify playlist "{playlist_id}" to "{title}"',
        'change the title of my Spotify playlist "{playlist_id}" to "{title}"',
        literal=("title",),
        lookup=("playlist_id",),
        needs=("title",),
    ),
    "add_song_to_library": ask(
        'add the song "{song_id}" to my Spotify song library',
        'save the song "{song_id}" in my Spotify song library',
        lookup=("song_id",),
    ),
    "remove_song_from_library": ask(
        'remove the song "{song_id}" from my Spotify song library',
        'take "{song_id}" out of my Spotify song library',
        lookup=("song_id",),
    ),
    "add_album_to_library": ask(
        'add the album "{album_id}" to my Spotify album library', lookup=("album_id",)
    ),
    "remove_album_from_library": ask(
        'remove the album "{album_id}" from my Spotify album library', lookup=("album_id",)
    ),
    "add_song_to_playlist": ask(
        'add the song "{song_id}" to my Spotify playlist "{playlist_id}"',
        'put the song "{song_id}" into the Spotify playlist "{playlist_id}"',
        lookup=("song_id", "playlist_id"),
    ),
    "remove_song_from_playlist": ask(
        'remove the song "{song_id}" from my Spotify playlist "{playlist_id}"',
        'take the song "{song_id}" out of the Spotify playlist "{playlist_id}"',
        lookup=("song_id", "playlist_id"),
    ),
    "download_song": ask(
        'download the song "{song_id}" on Spotify',
        'make the Spotify song "{song_id}" available offline',
        lookup=("song_id",),
    ),
    "remove_downloaded_song": ask(
        'remove the song "{song_id}" from my Spotify downloads', lookup=("song_id",)
    ),
    "follow_artist": ask(
        "follow the artist {artist_id} on Spotify",
        "start following {artist_id} on Spotify",
        lookup=("artist_id",),
    ),
    "unfollow_artist": ask(
        "unfollow the artist {artist_id} on Spotify",
        "stop following {artist_id} on Spotify",
        lookup=("artist_id",),
    ),
    "review_song": ask(
        'rate the song "{song_id}" with {rating} stars on Spotify',
        'leave a review with {rating} stars for the Spotify song "{song_id}"',
        optional={"title": ', with the headline "{title}"', "text": ', with the text "{text}"'},
        literal=("rating", "title", "text"),
        lookup=("song_id",),
    ),
    "review_album": ask(
        'rate the album "{album_id}" with {rating} stars on Spotify',
        optional={"title": ', with the headline "{title}"', "text": ', with the text "{text}"'},
        literal=("rating", "title", "text"),
        lookup=("album_id",),
    ),
    "set_volume": ask(
        "set the volume of the Spotify player to {volume}",
        "turn the Spotify player to volume {volume}",
        literal=("volume",),
    ),
    "search_songs": look("query", rows=_SONG, facts=_MORE_SONG_FACTS),
    "show_song": look(rows=_SONG, facts=_MORE_SONG_FACTS, lookup=("song_id",)),
    "search_albums": look("query", rows=_ALBUM, facts=_ALBUM_FACTS),
    "show_album_library": look(rows=_ALBUM, facts=_ALBUM_FACTS),
    "show_liked_albums": look(rows=_ALBUM, facts=_ALBUM_FACTS),
    "search_artists": look("query", rows=_ARTIST, facts=_ARTIST_FACTS),
    "show_following_artists": look(rows=_ARTIST, facts=_ARTIST_FACTS),
    "show_song_library": look(rows=_SONG, facts=_SONG_FACTS),
    "show_liked_songs": look(rows=_SONG, facts=_SONG_FACTS),
    "show_downloaded_songs": look(rows=_SONG, facts=_SONG_FACTS),
    "show_playlist_library": look(rows=_PLAYLIST),
    "show_volume": look(refer={"volume": "the current volume of the Spotify player"}),
}

_PRODUCT = {"product_id": "{name}"}
_PRODUCT_FACTS = {
    "price": 'the price of the product "{name}" on Amazon',
    "delivery_days": 'the number of days that Amazon needs to deliver the product "{name}"',
    "rating": 'the Amazon rating of the product "{name}"',
    "inventory_quantity": 'the number of pieces of the product "{name}" that Amazon has in stock',
}
_LISTED = {"product_id": "{product_name}"}

AMAZON = {
    "add_product_to_cart": ask(
        'put the product "{product_id}" into my Amazon cart',
        'add "{product_id}" to my Amazon cart',
        optional={"quantity": ", {quantity} of it"},
        literal=("quantity",),
        lookup=("product_id",),
    ),
    "delete_product_from_cart": ask(
        'remove the product "{product_id}" from my Amazon cart',
        'take "{product_id}" out of my Amazon cart',
        lookup=("product_id",),
    ),
    "update_product_quantity_in_cart": ask(
        'change the quantity of "{product_id}" in my Amazon cart to {quantity}',
        'make it {quantity} pieces of "{product_id}" in my Amazon cart',
        literal=("quantity",),
        lookup=("product_id",),
    ),
    "clear_cart": ask("empty my Amazon cart", "remove everything from my Amazon cart"),
    "add_product_to_wish_list": ask(
        'put the product "{product_id}" on my Amazon wish list',
        'add "{product_id}" to my Amazon wish list',
        lookup=("product_id",),
    ),
    "delete_product_from_wish_list": ask(
        'remove the product "{product_id}" from my Amazon wish list', lookup=("product_id",)
    ),
    "clear_wish_list": ask(
        "empty my Amazon wish list", "remove everything from my Amazon wish list"
    ),
    "move_product_from_cart_to_wish_list": ask(
        'move the product "{product_id}" from my Amazon cart to my wish list',
        lookup=("product_id",),
    ),
    "move_product_from_wish_list_to_cart": ask(
        'move the product "{product_id}" from my Amazon wish list to my cart',
        lookup=("product_id",),
    ),
    "place_order": ask(
        "order what is in my Amazon cart, paid with my {payment_card_id} card and sent to my {address_id} address",
        "place an Amazon order of my cart: pay with my {payment_card_id} card and ship to my {address_id} address",
        lookup=("payment_card_id", "address_id"),
    ),
    "write_product_review": ask(
        'review the product "{product_id}" on Amazon with {rating} stars',
        optional={"title": ', with the headline "{title}"', "text": ', with the text "{text}"'},
        literal=("rating", "title", "text"),
        lookup=("product_id",),
    ),
    "write_product_question": ask(
        'ask this question about the product "{product_id}" on Amazon: "{question}"',
        literal=("question",),
        lookup=("product_id",),
    ),
    "search_products": look("query", rows=_PRODUCT, facts=_PRODUCT_FACTS),
    "show_product": look(rows=_PRODUCT, facts=_PRODUCT_FACTS, lookup=("product_id",)),
    "show_cart": look(
        rows=_LISTED,
        facts={"quantity": 'the quantity of "{product_name}" in my Amazon cart'},
        refer={"total_cost": "the total cost of what is in my Amazon cart"},
    ),
    "show_wish_list": look(rows=_LISTED),
    "show_payment_cards": look(rows={"payment_card_id": "{card_name}"}),
    "show_addresses": look(
        rows={"address_id": "{name}"},
        facts={"street_address": "the street address that Amazon has as my {name} address"},
    ),
}

FILES = {
    "create_directory": ask(
        "create the folder {directory_path} in my file system",
        "make a new folder {directory_path} in my file system",
        literal=("directory_path",),
    ),
    "delete_directory": ask(
        "delete the folder {directory_path} with all that is in it from my file system",
        literal=("directory_path",),
    ),
    "create_file": ask(
        "create the file {file_path} in my file system, with exactly this content: {content}",
        literal=("file_path",),
        needs=("content",),
        words={"content": quoted(INVENTED["file_system.create_file.content"])},
    ),
    "update_file": ask(
        "replace the content of the file {file_path} in my file system with exactly this: {content}",
        words={"content": quoted(INVENTED["file_system.update_file.content"])},
        literal=("file_path",),
    ),
    "delete_file": ask("delete the file {file_path} from my file system", literal=("file_path",)),
    "copy_file": ask(
        "copy the file {source_file_path} to {destination_file_path} in my file system",
        literal=("source_file_path", "destination_file_path"),
    ),
    "move_file": ask(
        "move the file {source_file_path} to {destination_file_path} in my file system",
        literal=("source_file_path", "destination_file_path"),
    ),
    "show_file": look(refer={"content": "the content of the file {file_path} in my file system"}),
}

_NOTE = {"note_id": "{title}"}

NOTES = {
    "create_note": ask(
        'write a Simple Note with the title "{title}" and exactly this content: {content}',
        'create a note in Simple Note; its title is "{title}", its content exactly {content}',
        refer={"note_id": "{title}"},
        words={"content": quoted(INVENTED["simple_note.create_note.content"])},
        literal=("title",),
    ),
    "delete_note": ask(
        'delete the Simple Note "{note_id}"',
        'throw away my note "{note_id}" in Simple Note',
        lookup=("note_id",),
    ),
    "update_note": ask(
        'change the title of my Simple Note "{note_id}" to "{title}"',
        'rename the Simple Note "{note_id}" to "{title}"',
        literal=("title",),
        lookup=("note_id",),
        needs=("title",),
    ),
    "add_content_to_note": ask(
        '{append_or_prepend} my Simple Note "{note_id}": "{added_content}"',
        words={
            "append_or_prepend": {
                '"append"': "add this at the end of",
                '"prepend"': "add this at the beginning of",
            }
        },
        literal=("append_or_prepend", "added_content"),
        lookup=("note_id",),
    ),
    "search_notes": look("query", rows=_NOTE),
    "show_note": look(
        rows=_NOTE,
        facts={"content": 'the content of my Simple Note "{title}"'},
        lookup=("note_id",),
    ),
}
