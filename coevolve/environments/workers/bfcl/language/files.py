"""How people ask for GorillaFileSystem and MathAPI.

File functions work on the current folder only, so every request says so, and moving about is asked for in words. What is
converted is a number: an amount that another function told has a unit of its own, or is money.
"""

from __future__ import annotations

from ..content import SENTENCES
from .phrases import ask, quoted, read, said

FILES = {
    "cat": read(
        "show me what is in the file {file_name} in the current folder",
        "print the content of {file_name} from the current folder",
        refer={"file_content": "the content of {file_name}"},
    ),
    "cd": ask(
        "go into the {folder} folder",
        "switch to the {folder} folder",
        "change into the {folder} folder",
        words={"folder": said([("..", "parent"), ("/", "root")])},
    ),
    "cp": ask(
        "copy {source} in the current folder to {destination}",
        "make a copy of {source} from the current folder at {destination}",
        literal=("destination",),
    ),
    "diff": read(
        "compare {file_name1} with {file_name2}, in this order, line by line in the current folder",
        "show me how {file_name1} differs from {file_name2} in the current folder, the former first",
        refer={"diff_lines": "the differences between {file_name1} and {file_name2}"},
    ),
    "du": read(
        "tell me how much disk space the current folder uses",
        "report the disk usage of the current folder",
        optional={"human_readable": ", {human_readable}"},
        absent={"human_readable": ", as a plain number of bytes"},
        refer={"disk_usage": "the disk usage of the current folder"},
        words={
            "human_readable": {
                "true": "in human-readable units",
                "false": "as a plain number of bytes",
            }
        },
    ),
    "echo": ask(
        "write {content}",
        "output {content}",
        optional={
            "file_name": " into the existing file {file_name} in the current folder, replacing its content"
        },
        absent={"file_name": ", on the terminal and into no file"},
        words={"content": quoted(SENTENCES)},
    ),
    "find": read(
        "search for files and folders, subfolders included",
        "do a search for files and folders, also in subfolders",
        optional={
            "path": ", starting from the path {path}",
            "name": ', for those with "{name}" in their name',
        },
        absent={"path": ", starting from the current folder", "name": ", whatever their name"},
        literal=("path", "name"),
    ),
    "grep": read(
        'show me the lines of {file_name} in the current folder that contain "{pattern}"',
        'search {file_name} in the current folder for lines with "{pattern}" in them',
        literal=("pattern",),
        refer={"matching_lines": 'the lines of {file_name} that contain "{pattern}"'},
    ),
    "ls": read(
        "list what is in the current folder",
        "show me the items of the current folder",
        optional={"a": ", {a}"},
        absent={"a": ", without hidden items"},
        words={"a": {"true": "hidden items included", "false": "without hidden items"}},
    ),
    "mkdir": ask(
        "create a folder named {dir_name} in the current folder",
        "make a new folder called {dir_name} in the current folder",
        literal=("dir_name",),
    ),
    "mv": ask(
        "move {source} in the current folder to {destination}",
        "in the current folder, move {source} to {destination}",
        literal=("destination",),
    ),
    "pwd": read(
        "tell me the full path of the current folder",
        "show me which folder is the current one, as a path",
        refer={"current_working_directory": "the path of the current folder"},
    ),
    "rm": ask(
        "delete {file_name} from the current folder",
        "remove {file_name}, which lies in the current folder",
    ),
    "rmdir": ask(
        "remove the empty folder {dir_name} from the current folder",
        "delete the folder {dir_name}, which is empty, from the current folder",
    ),
    "sort": read(
        "show me the lines of {file_name} in the current folder in sorted order",
        "sort the lines of {file_name} in the current folder and show the result",
        refer={"sorted_content": "the sorted lines of {file_name}"},
    ),
    "tail": read(
        "show me the end of {file_name} in the current folder",
        "display the last part of {file_name} from the current folder",
        optional={"lines": ", namely its last {lines} lines"},
        absent={"lines": ", namely its last 10 lines"},
        literal=("lines",),
        refer={"last_lines": "the last lines of {file_name}"},
    ),
    "touch": ask(
        "create an empty file named {file_name} in the current folder",
        "make a new, empty file {file_name} in the current folder",
        literal=("file_name",),
    ),
    "wc": read(
        "for the file {file_name} in the current folder, count the",
        "for {file_name} in the current folder, tell me the number of",
        optional={"mode": " {mode}"},
        absent={"mode": " lines"},
        words={"mode": said([("l", "lines"), ("w", "words"), ("c", "characters")])},
    ),
}

MATH = {
    "absolute_value": read(
        "tell me the absolute value of {number}",
        "work out the absolute value of {number}",
        refer={"result": "the absolute value of {number}"},
    ),
    "add": read(
        "add {a} and {b}, in this order",
        "work out {a} plus {b}",
        refer={"result": "the sum of {a} and {b}"},
    ),
    "divide": read(
        "divide {a} by {b}",
        "work out {a} divided by {b}",
        refer={"result": "the quotient of {a} by {b}"},
    ),
    "imperial_si_conversion": read(
        "convert {value} from {unit_in} to {unit_out}, between imperial and metric units",
        "with the imperial and metric conversion, turn {value} {unit_in} into {unit_out}",
        literal=("value", "unit_in", "unit_out"),
        refer={"result": "the value of {value} {unit_in} in {unit_out}"},
    ),
    "logarithm": read(
        "compute the logarithm of {value} to the base {base} with a precision of {precision}",
        "work out the log of {value} in base {base}, precision {precision}",
        literal=("base", "precision"),
    ),
    "max_value": read(
        "tell me the largest of the numbers {numbers}",
        "find the maximum of {numbers}",
        refer={"result": "the largest of {numbers}"},
    ),
    "mean": read(
        "tell me the mean of the numbers {numbers}",
        "work out the average of {numbers}",
        refer={"result": "the mean of {numbers}"},
    ),
    "min_value": read(
        "tell me the smallest of the numbers {numbers}",
        "find the minimum of {numbers}",
        refer={"result": "the smallest of {numbers}"},
    ),
    "multiply": read(
        "multiply {a} by {b}",
        "work out {a} times {b}",
        refer={"result": "the product of {a} and {b}"},
    ),
    "percentage": read(
        "tell me what percentage {part} is of {whole}",
        "work out {part} as a percentage of {whole}",
        refer={"result": "the percentage that {part} is of {whole}"},
    ),
    "power": read(
        "raise {base} to the power of {exponent}",
        "work out {base} to the exponent {exponent}",
        literal=("base", "exponent"),
        refer={"result": "the result of raising {base} to the power of {exponent}"},
    ),
    "round_number": read(
        "round {number}",
        "give me {number} rounded",
        optional={"decimal_places": " to {decimal_places} decimal places"},
        absent={"decimal_places": " to 0 decimal places"},
        literal=("decimal_places",),
        refer={"result": "the rounded value of {number}"},
    ),
    "si_unit_conversion": read(
        "convert {value} from {unit_in} to {unit_out}, both of them metric units",
        "with the metric conversion, turn {value} {unit_in} into {unit_out}",
        literal=("value", "unit_in", "unit_out"),
        refer={"result": "the value of {value} {unit_in} in {unit_out}"},
    ),
    "square_root": read(
        "compute the square root of {number} with a precision of {precision}",
        "work out the square root of {number}, precision {precision}",
        literal=("precision",),
    ),
    "standard_deviation": read(
        "tell me the standard deviation of the numbers {numbers}",
        "work out the standard deviation of {numbers}",
        refer={"result": "the standard deviation of {numbers}"},
    ),
    "subtract": read(
        "subtract {b} from {a}",
        "work out {a} minus {b}",
        refer={"result": "the difference of {a} and {b}"},
    ),
    "sum_values": read(
        "add up the list of numbers {numbers}",
        "tell me the total of the numbers {numbers}",
        refer={"result": "the total of {numbers}"},
    ),
}
