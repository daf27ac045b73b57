from unsee.progress import bar


def test_a_bar_goes_to_standard_error(capsys):
    with bar("forgetting", 3, 1) as advance:
        advance(2)
    out, err = capsys.readouterr()
    assert out == ""
    assert "forgetting" in err
    assert "3/3" in err


def test_no_label_no_bar(capsys):
    with bar(None, 3) as advance:
        advance(3)
    assert capsys.readouterr() == ("", "")
