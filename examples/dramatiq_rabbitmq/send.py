"""Mails of two customers; the last is sent by a producer that knows RabbitMQ only."""

from app import RABBITMQ, mail
from dramatiq.brokers.rabbitmq import RabbitmqBroker

for number in range(100):
    mail.send(f"offer {number}", tenant_id="megacorp")
mail.send("welcome", tenant_id="ada")

old = RabbitmqBroker(url=RABBITMQ)
old.declare_queue(mail.queue_name)
old.enqueue(mail.message("from an old producer", tenant_id="ada"))
old.close()
