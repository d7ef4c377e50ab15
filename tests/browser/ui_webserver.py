"""The webserver of `snapline ui`, over the quick shop: what the browser's forms do, they do to its assets."""

from resources import code_location
from resources.ui import webserver as ui_webserver

if __name__ == "__main__":
    code_location._MODULE = "tests.browser.ui_shop"
    ui_webserver.start()
