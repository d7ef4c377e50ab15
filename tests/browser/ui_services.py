"""What `snapline ui` becomes, over the quick shop."""

from resources.ui import services as ui_services

if __name__ == "__main__":
    ui_services.start("tests.browser.ui_webserver")
