from unsee import errors


def test_the_drawing_on_top_lists_every_error_with_its_code():
    drawn = {
        line.split()[1]: int(line.split()[2])
        for line in errors.__doc__.splitlines()
        if line[:2] in ("├─", "└─")
    }
    assert drawn == {kind.__name__: kind.exit_code for kind in errors.UnseeError.__subclasses__()}


def test_the_three_parts_read_as_one_sentence():
    error = errors.InputError("a", "b", "c")
    assert str(error) == "Expected a, found b: c."
    assert (error.expected, error.found, error.do) == ("a", "b", "c")


def test_what_was_found_is_not_told_without_end():
    error = errors.InputError("a", "b" * 5000, "c")
    assert str(error) == f"Expected a, found {'b' * 1000}...: c."
    assert error.found == "b" * 5000
